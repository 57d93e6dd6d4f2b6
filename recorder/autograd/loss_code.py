"""Which nodes of a loss's graph the code of the loss made, and which the models."""

from bisect import bisect_right
from collections.abc import Callable
from typing import Any

from torch import Tensor

from .graph import nodes_down_to, shape_of

Made = tuple[int, int, int]
"""First node of a call, node after the last, module_id; inner calls stand before outer ones."""


def nodes_of_loss_code(loss: Tensor, calls: list[Made], holds_weights: Callable[[int], bool]) -> list[Any]:
    """Nodes behind a loss that no model made, in forward order: what a script writes before, between and after its forwards.

    A model is a call of a module that holds weights. A call whose results are single numbers is the loss itself, or computes it:
    there the calls inside are the models.
    """
    nodes = nodes_down_to(loss, 0)
    level, models = _outer(calls, holds_weights), list[Made]()
    while level:
        inside = _giving_more_than_numbers(nodes, level)
        models += inside
        level = [inner for call in level if call not in inside for inner in _within(call, calls, holds_weights)]
    models.sort(key=lambda call: call[0])
    return [node for node in nodes if _call_of(node._sequence_nr(), models) is None]


def _outer(calls: list[Made], holds_weights: Callable[[int], bool]) -> list[Made]:
    """Those that lie in no other one, in order."""
    found: list[Made] = []
    for call in reversed(calls):
        if call[0] < call[1] and not (found and call[0] >= found[-1][0]) and holds_weights(call[2]):
            found.append(call)
    return found[::-1]


def _within(outer: Made, calls: list[Made], holds_weights: Callable[[int], bool]) -> list[Made]:
    return _outer([call for call in calls[: calls.index(outer)] if call[0] >= outer[0]], holds_weights)


def _giving_more_than_numbers(nodes: list[Any], level: list[Made]) -> list[Made]:
    """Calls a result of which that is used elsewhere is more than a number."""
    found: set[Made] = set()
    for node in nodes:
        here = _call_of(node._sequence_nr(), level)
        for behind, place in node.next_functions:
            if behind is None:
                continue
            there = _call_of(behind._sequence_nr(), level)
            if there is None or there is here or there in found:
                continue
            if any(size != 1 for size in shape_of(behind, place) or ()):
                found.add(there)
    return [call for call in level if call in found]


def _call_of(number: int, ordered: list[Made]) -> Made | None:
    at = bisect_right(ordered, number, key=lambda call: call[0]) - 1
    return ordered[at] if at >= 0 and number < ordered[at][1] else None

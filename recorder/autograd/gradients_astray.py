"""Values in a loss that are to be numbers and have a graph: a target that came of the weights it is to train, an advantage that
the policy trains."""

from collections.abc import Iterator
from typing import Any, NamedTuple

from torch import Tensor

from .graph import shape_of
from .linear_parts import Part, Parts, error_of, operator_name, operators_of_loss, parts_of

_CHOOSES = {"Max", "Amax", "Gather", "Index", "IndexSelect", "Select", "Take"}
_OF_SEVERAL = {"Minimum", "Maximum", "Min", "Logsumexp", *_CHOOSES}
_SQUASHED = {"Softmax", "LogSoftmax", "Sigmoid", "Exp", *_CHOOSES}

_LEAST_FACTOR = 0.5
"""Of the value of the state that follows: a discount, and no step of time."""

_ROUNDING = 1e-6
_MOST_NODES = 4_000
_PEELED = 12


class Astray(NamedTuple):
    """``form``: ``actions`` (values of chosen actions), ``states`` or ``advantage``. ``node`` is the operator that made the value
    which is trained through what should be a number; ``leaves`` are weights that it reaches."""

    form: str
    node: Any
    through: str
    factor: float | None
    leaves: dict[int, Tensor]


def astray(loss: Tensor) -> Iterator[Astray]:
    """Such values in a loss, the first of each form."""
    errors: list[Parts] = []
    products: list[Any] = []
    for node in operators_of_loss(loss):
        sides = error_of(node)
        if sides is not None:
            errors.append(parts_of(*sides))
        elif operator_name(node) == "Mul" and len(_given(node)) == 2:
            products.append(node)
    targets = [found for error in errors if (found := _bootstrap(error))]
    yield from {found.form: found for found in reversed(targets)}.values()
    trained = {part.node for error in errors if error.constant for part in error.values} if products else set()
    for node in products:
        for likelihood, weight in (node.next_functions, node.next_functions[::-1]):
            if trained and _log_probability(likelihood[0]) and (found := _advantage(weight[0], trained)):
                yield found
                return


def _given(node: Any) -> list[Any]:
    """What an operator was given that has a graph."""
    return [behind for behind, _ in node.next_functions if behind is not None]


def _bootstrap(error: Parts) -> Astray | None:
    """A reward, and the value of what follows with a discount, less a value of the same weights."""
    if not error.constant or len(error.values) != 2:
        return None
    later, now = sorted(error.values, key=lambda part: not part.scaled)
    if not later.scaled or now.scaled or later.sign == now.sign or later.node is now.node:
        return None
    if later.low is None or later.high is None or later.low < 0 or later.high > 1 + _ROUNDING:
        return None
    chosen = later.placed or _chosen(now.node, _CHOOSES)
    if chosen != _chosen(later.node, _OF_SEVERAL):
        return None
    if not chosen and not (later.high >= _LEAST_FACTOR and _one_each(later.node) and _one_each(now.node)):
        return None
    trained, reached = _leaves(now.node), _leaves(later.node)
    if not trained or not trained.keys() <= reached.keys() or (not chosen and trained.keys() != reached.keys()):
        return None
    return Astray("actions" if chosen else "states", later.node, operator_name(later.node), later.high, trained)


def _chosen(node: Any, by: set[str]) -> bool:
    """Whether a value was chosen among those of several actions: picked, or summed under a one-hot row."""
    name = operator_name(node)
    if name == "Sum":
        behind = node.next_functions[0][0]
        return (
            behind is not None and operator_name(behind) == "Mul" and any(n is None for n, _ in behind.next_functions)
        )
    if name == "Index":  # one number after another is a choice of rows
        return sum(indices is not None for indices in node._saved_indices) > 1
    return name in by


def _one_each(node: Any) -> bool:
    """Whether it holds one number for each sample."""
    shape = shape_of(node, 0)
    return shape is not None and (len(shape) < 2 or shape[-1] == 1)


def _advantage(weight: Any, trained: set[Any]) -> Astray | None:
    """An advantage with a graph: numbers less a value that an error of the same loss trains."""
    parts = parts_of(Part(weight, 1))
    for part in parts.values:
        less = parts.constant and part.sign < 0 and part.node in trained
        if less and operator_name(part.node) not in _SQUASHED and (leaves := _leaves(part.node)):
            return Astray("advantage", part.node, operator_name(part.node), None, leaves)
    return None


def _log_probability(node: Any) -> bool:
    """Whether this is, or is made of, the logarithm of the probability of one outcome, as distributions and losses make it."""
    for _ in range(_PEELED):
        if node is None or not node.next_functions:
            return False
        name = operator_name(node)
        if name == "NllLoss":
            return True
        behind = node.next_functions[0][0]
        if behind is None:
            return False
        made = operator_name(behind)
        if name == "Log":
            return made in _PICKS
        if name in _PICKS:
            if made in {"LogSoftmax", "Log"}:
                return True
            if made == "Sub":  # logits less the logarithm of the sum of their exponentials
                return "Logsumexp" in {operator_name(n) for n, _ in behind.next_functions if n is not None}
        if name == "Div" and made == "Neg":  # of a normal distribution
            squared = behind.next_functions[0][0]
            return operator_name(squared) == "Pow" and squared._saved_exponent == 2
        if name not in _PEELS:
            return False
        node = behind
    return False


_PICKS = {"Gather", "Index", "Select"}

_PEELS = {
    "Squeeze", "Unsqueeze", "View", "UnsafeView", "Neg", "Sum", "Mean", "Exp", "Clamp", "Sub", "Stack", "Cat", "Select",
    "Gather", "Index", "Expand", "Clone", "ToCopy",
}  # fmt: skip
"""Operators between the logarithm of a probability and the product."""


def _leaves(start: Any) -> dict[int, Tensor]:
    """Leaves behind a node by identity; none where there is more than is walked."""
    found: dict[int, Tensor] = {}
    seen = {start}
    todo = [start]
    while todo:
        node = todo.pop()
        leaf = getattr(node, "variable", None)
        if leaf is not None:
            found[id(leaf)] = leaf
        for behind, _ in node.next_functions:
            if behind is not None and behind not in seen:
                seen.add(behind)
                todo.append(behind)
        if len(seen) > _MOST_NODES:
            return {}
    return found

"""Terms that a function adds to its loss, and that have no graph."""

import sys
from collections.abc import Callable

import pytest
import torch
from firstfault.recorder.probes.flat_terms import FlatTerm, flat_terms
from torch import Tensor

x, w = torch.tensor(2.0), torch.tensor(0.5, requires_grad=True)


def detached_and_weighted(factor: float) -> list[FlatTerm]:
    first = w * x
    second = (w * 3).detach() * factor
    loss = first + second
    return flat_terms(loss, sys._getframe())


def in_a_sum_within(factor: float) -> list[FlatTerm]:
    style = (w * 3).detach()
    parts = w * x + factor * style
    loss = w + parts
    return flat_terms(loss, sys._getframe())


def added_in_place(factor: float) -> list[FlatTerm]:
    loss = w * x
    penalty = (w * factor).detach()
    loss += penalty
    return flat_terms(loss, sys._getframe())


def detached_after_it_was_added(factor: float) -> list[FlatTerm]:
    aux = w * factor
    loss = w * x + aux
    aux = aux.detach()
    return flat_terms(loss, sys._getframe())


def with_graphs(factor: float) -> list[FlatTerm]:
    margin = factor * 2
    aux = w * factor
    loss = w * x + aux + margin
    return flat_terms(loss, sys._getframe())


def switched_off(factor: float) -> list[FlatTerm]:
    weight = 0 * factor
    aux = (w * 3).detach()
    loss = w * x + weight * aux
    return flat_terms(loss, sys._getframe())


def of_many_elements(_factor: float) -> list[FlatTerm]:
    offset = torch.ones(3)
    losses = w * x + offset
    return flat_terms(losses.sum(), sys._getframe())


@pytest.mark.parametrize(
    ("function", "found"),
    [
        (detached_and_weighted, [("second", "loss = first + second")]),
        (in_a_sum_within, [("style", "parts = w * x + factor * style")]),
        (added_in_place, [("penalty", "loss += penalty")]),
        (detached_after_it_was_added, []),
        (with_graphs, []),
        (switched_off, []),
        (of_many_elements, []),
    ],
)
def test_a_term_without_a_graph_is_found_where_it_is_added(
    function: Callable[[float], list[FlatTerm]], found: list[tuple[str, str]]
) -> None:
    told = function(0.3)
    assert [(t.term, t.text) for t in told] == found
    assert all(t.place.partition(":")[2].isdigit() and t.value > 0 for t in told)
    assert isinstance(x, Tensor)

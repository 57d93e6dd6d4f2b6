"""Find the first bad module in a step whose activations were not measured, from what the autograd graph still holds.

When the loss is non-finite in such a step, the saved tensors are read in forward order. The first non-finite one is the result
of the operator that saved it, or an input of it and so the result of the operator before. The module in whose forward that
operator ran is the answer.
"""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from ...schemas import Phase
from ..session.session import Session
from ..tensors.measure import measure
from ..tensors.moments import measurable
from .compiled_graphs import CompiledGraphs, is_compiled
from .compiled_values import find_first_lost, inputs_of, measure_outputs
from .graph import nodes_down_to, saved_tensor

_RESULTS = {"result", "result0", "result1", "result2", "output", "out", "rstd", "logsumexp", "save_invstd"}
"""Names under which autograd nodes save what they have computed, not what they were given."""


def find_first_bad_module(session: Session, graphs: CompiledGraphs, loss: Tensor) -> None:
    """Write a row for the first saved tensor that is not finite.

    Costs one reduction for each saved tensor up to the bad one; meant for a step that is lost anyway.
    """
    if session.position.saved_tensor_hooks_used:
        return
    for node in nodes_down_to(loss, 0):
        if is_compiled(node) and find_first_lost(session, graphs, node):
            return
        for name, value in _values(graphs, node):
            if value is None or not value.is_floating_point() or not value.numel() or not measurable(value):
                continue
            if bool(torch.isfinite(value.detach()).all()):
                continue
            maker = node if name in _RESULTS or _is_weight(node, value) else _maker(node)
            module_id = session.answers.module_of(maker._sequence_nr())
            entry = session.catalogue.module(module_id) if module_id is not None else None
            if entry is None:
                return
            tensor_id = session.catalogue.tensor(entry.id, f"{entry.name}:saved", "activation", value)
            session.rows.add_tensor_stats(tensor_id, Phase.FORWARD, measure(value), requires_grad=True)
            return


def _values(graphs: CompiledGraphs, node: Any) -> Iterator[tuple[str, Tensor | None]]:
    """What an operator has saved, by name; of compiled code the NaN that it was given: infinities may be masks."""
    graph = graphs.graph_of(node) if is_compiled(node) else None
    if graph is not None:
        yield from (("input", value) for value in inputs_of(graph, node) if bool(value.isnan().any()))
    for attribute in dir(node):
        if attribute.startswith("_saved_"):
            name = attribute.removeprefix("_saved_")
            yield name, saved_tensor(node, name)


def find_first_compiled(session: Session, graphs: CompiledGraphs, tensor: Tensor, first: int) -> None:
    """The same among what compiled code has saved, for a step whose modules are measured where they are not compiled."""
    if graphs and not session.position.saved_tensor_hooks_used:
        for node in nodes_down_to(tensor, first):
            if is_compiled(node) and find_first_lost(session, graphs, node):
                return


def measure_compiled(session: Session, graphs: CompiledGraphs, loss: Tensor, *, healthy: bool) -> None:
    """Measure what modules have put out inside compiled code, as far as it is saved for the backward of this loss."""
    if graphs and not session.position.saved_tensor_hooks_used:
        measure_outputs(session, graphs, nodes_down_to(loss, 0), healthy=healthy)


def _maker(node: Any) -> Any:
    """The operator whose output a node was given: the latest before it; the node itself where it was given a leaf."""
    before = [n for n, _ in node.next_functions if n is not None and _is_operator(n) and not _is_turned_weight(n)]
    return max(before, key=lambda n: n._sequence_nr(), default=node)


def _is_weight(node: Any, value: Tensor) -> bool:
    """Whether a saved tensor is a parameter that the operator was given, as it is or turned."""
    storage = value.untyped_storage().data_ptr()
    for given, _ in node.next_functions:
        leaf = getattr(_behind_turns(given), "variable", None)
        if isinstance(leaf, Tensor) and measurable(leaf) and leaf.untyped_storage().data_ptr() == storage:
            return True
    return False


def _behind_turns(node: Any) -> Any:
    while node is not None and node.next_functions and _is_operator(node) and _is_turned_weight(node):
        node = node.next_functions[0][0]
    return node


def _is_operator(node: Any) -> bool:
    return node._sequence_nr() < 1 << 62  # AccumulateGrad, a leaf, carries the largest number there is


def _is_turned_weight(node: Any) -> bool:
    """Whether it only hands a parameter on, in another shape or dtype."""
    name = type(node).__name__
    return name.startswith(("T", "ToCopy", "Permute", "View", "Reshape")) and not any(
        n is not None and _is_operator(n) for n, _ in node.next_functions
    )

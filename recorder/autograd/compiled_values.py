"""Measures what the forward of compiled code has saved for backward, between the two: nothing is added to any graph.

What a module puts out gets the row that it would have uncompiled. The first lost value is searched in the order of the graph,
in a step that is lost anyway. See compiled_graphs for what cannot be seen.
"""

from collections.abc import Iterator
from time import perf_counter_ns
from typing import Any

import torch
from torch import Tensor

from ...schemas import Phase
from ..script.wrappers import local
from ..session.registry import ModuleEntry
from ..session.session import Session
from ..tensors.measure import measure
from ..tensors.moments import LATE_DEVICES, measurable
from .compiled_graphs import CompiledGraphs, ForwardGraph, Operand, Saved, is_compiled, tensors_of
from .compiled_modules import Places
from .operator_rows import write_operator

_MASKS = {"where", "masked_fill", "full", "full_like", "scalar_tensor", "constant_pad_nd"}
"""Operators whose infinities somebody wrote down."""


def measure_outputs(session: Session, graphs: CompiledGraphs, nodes: list[Any], *, healthy: bool) -> None:
    """A row of tensor_stats for every module output among the saved values. In a ``healthy`` step, which values may be
    infinite is noted once for each graph."""
    began, rows = perf_counter_ns(), 0
    for node in nodes:
        graph = graphs.graph_of(node) if is_compiled(node) else None
        if graph is None:
            continue
        places = Places(session, graph.parameters, node)
        first = healthy and graph.infinite is None
        if first:
            graph.infinite = set()
        for index, value, tensor in _floats(graph, node):
            entry = _putting_out(places, value)
            name = f"{entry.name}:output0" if entry is not None else ""
            tensor_id = session.catalogue.tensor(entry.id, name, "activation", tensor) if entry is not None else None
            if tensor_id is not None and tensor_id not in session.catalogue.excluded:
                moments = measure(tensor)
                session.rows.add_tensor_stats(tensor_id, Phase.FORWARD, moments, requires_grad=True)
                rows += 1
            elif first and tensor.device.type not in LATE_DEVICES:
                moments = measure(tensor, size_only=True)
            else:
                continue
            if first and graph.infinite is not None and moments.inf_count:
                graph.infinite.add(index)
    session.budget.spent("activations", perf_counter_ns() - began, rows)


def find_first_lost(session: Session, graphs: CompiledGraphs, node: Any) -> bool:
    """Write rows for the first saved value of a compiled forward that is not finite and was not meant to be; False where
    there is none, or where it was given one. Costs one reduction for each value up to it."""
    graph = graphs.graph_of(node)
    if graph is None or any(bool(tensor.isnan().any()) for tensor in inputs_of(graph, node)):
        return False
    places = Places(session, graph.parameters, node)
    for index, value, tensor in _floats(graph, node):
        if not _lost(graph, index, value, tensor):
            continue
        entry, putting_out = places.entry(value.module), _putting_out(places, value)
        where = entry.name if entry is not None else "compiled"
        name = f"{where}:output0" if putting_out is not None else f"{where}:{value.name}"
        module_id = entry.id if entry is not None else None
        tensor_id = session.catalogue.tensor(module_id, name, "activation", tensor)
        session.rows.add_tensor_stats(tensor_id, Phase.FORWARD, measure(tensor), requires_grad=True)
        result = next(o for o in graph.operands if o.index == index and o.role == "result")
        write_operand(session, node, places, result, tensor, "nonfinite", value)
        graphs.lost = (session.position.step, module_id)
        return True
    return False


def inputs_of(graph: ForwardGraph, node: Any) -> Iterator[Tensor]:
    """What the compiled code was given and saved: arguments, weights, buffers."""
    tensors = tensors_of(node)
    if len(tensors) == len(graph.saved):
        for value, tensor in zip(graph.saved, tensors, strict=True):
            if value is None and tensor.is_floating_point() and tensor.numel() and measurable(local(tensor)):
                yield local(tensor).detach()


def operands_of(graph: ForwardGraph, node: Any) -> Iterator[tuple[Operand, Tensor]]:
    """Saved values of a compiled forward, as its operators were given or made them, in the order of the graph."""
    tensors = tensors_of(node)
    if len(tensors) != len(graph.saved):
        return
    for operand in graph.operands:
        value = local(tensors[operand.index]).detach()
        if value.numel() and measurable(value):
            yield operand, value


def write_operand(
    session: Session,
    node: Any,
    places: Places,
    operand: Operand,
    value: Tensor,
    trigger: str,
    saved: Saved | None = None,
) -> None:
    """One row of `operators`. ``saved`` tells more of the value where the operator made it."""
    entry = places.entry(operand.module)
    operator = operand.operator if saved is None else saved.operator
    write_operator(
        session,
        value,
        trigger,
        op=autograd_name(operator),
        graph_seq=node._sequence_nr(),
        module_id=entry.id if entry is not None else None,
        saved=operand.role,
        compiled=operator,
        source=operand.source if saved is None else saved.source,
        unsaved=saved.unsaved if saved is not None else None,
    )


def autograd_name(operator: str) -> str:
    """aten's name as autograd writes it: aten.native_layer_norm → NativeLayerNorm, aten._softmax → Softmax."""
    return "".join(word.capitalize() for word in operator.rpartition(".")[2].strip("_").split("_"))


def _putting_out(places: Places, value: Saved) -> ModuleEntry | None:
    """The module whose output a value is; None where it is none, or it is not known which of several instances ran."""
    module = value.module() if value.output and value.module is not None else None
    entry = places.entry(value.module) if module is not None else None
    return entry if entry is not None and entry.class_name == type(module).__name__ else None


def _floats(graph: ForwardGraph, node: Any) -> Iterator[tuple[int, Saved, Tensor]]:
    """What operations of a graph made and saved, in the order of the graph; not what it was given."""
    tensors = tensors_of(node)
    if len(tensors) != len(graph.saved):
        return
    values = [(i, value, local(tensors[i])) for i, value in enumerate(graph.saved) if value is not None]
    for index, value, tensor in sorted(values, key=lambda v: v[1].position):
        if tensor.is_floating_point() and tensor.numel() and measurable(tensor):
            yield index, value, tensor.detach()


def _lost(graph: ForwardGraph, index: int, value: Saved, tensor: Tensor) -> bool:
    if bool(torch.isfinite(tensor).all()):
        return False
    wanted = index in (graph.infinite or ()) or value.operator.rpartition(".")[2] in _MASKS
    return not wanted or bool(tensor.isnan().any())

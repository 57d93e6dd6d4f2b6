"""Read the forward graphs that torch.compile makes, from its structured trace log; nothing is added to any graph.

A handler on that log gets the text of each graph, when it is made and when it comes out of a cache.

Some things no autograd node holds, so they cannot be seen. These are forwards without gradients, activations that are computed
again in the backward, and whatever else is not saved. Activations are computed again by checkpointing, and where the
partitioner finds that cheaper. Of these only the operators are named that lie between two saved values.
"""

import logging
import sys
import weakref
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from time import perf_counter_ns
from types import FrameType
from typing import Any

import torch
from torch import Tensor, nn

from ..script.frames import shown
from ..session.patches import Patches
from ..session.session import Session
from ..session.watch import Part
from .compiled_modules import LAYOUT, Stack, Traced, aligned, stack_of, traced_by_dynamo
from .graph_text import GraphText, Operation, read_graph, sizes

_LOG = "torch.__trace"
_MOST_WAITING = 256
"""Graphs that are kept until their first backward."""
_LONGEST_PATH = 4
"""Operators that are named between two saved values."""


@dataclass(slots=True)
class Saved:
    """One value of a forward graph that is saved for backward."""

    name: str
    position: int
    """Order in which the graph computes it."""
    operator: str
    """Such as aten.addmm."""
    module: weakref.ref[nn.Module] | None
    """Module in whose forward it was computed; None in code of the compiled function itself."""
    output: bool
    """Whether nothing else of that module's forward uses it: it is what the module puts out."""
    source: str | None
    """Line of the script."""
    unsaved: str | None
    """Operators between it and what was saved before it."""


@dataclass(slots=True)
class Operand:
    """A saved value as an operator was given it, or as it made it."""

    position: int
    operator: str
    role: str
    """Name of the argument, or ``result``."""
    index: int
    """Which of the saved values."""
    module: weakref.ref[nn.Module] | None
    source: str | None


@dataclass(slots=True)
class ForwardGraph:
    """What is known of one compiled forward."""

    saved: list[Saved | None]
    """In the order of the node's tensors; None for an input of the graph."""
    operands: list[Operand]
    parameters: list[weakref.ref[Tensor] | None]
    """Those it was traced with, one for each tensor it is given; None for other inputs."""
    infinite: set[int] | None = None
    """Saved values that were infinite in a healthy step, and may be; None before the first look."""


@dataclass(slots=True)
class _Logged:
    """A forward graph that no backward has shown yet. ``stacks`` is None for one out of a cache."""

    compile_id: str | None
    text: str
    stacks: dict[str, Stack] | None
    traced: Traced


class CompiledGraphs(Part):
    """Listens to torch's structured trace log; knows the forward graph behind each autograd node of compiled code."""

    name = "compiled-graphs"

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self.lost: tuple[int, int | None] | None = None
        """Step in which a lost value was found in compiled code last, and its module_id."""
        self._traced: tuple[str | None, Traced] = (None, Traced([], {}))
        self._waiting: deque[_Logged] = deque(maxlen=_MOST_WAITING)
        self._known: weakref.WeakKeyDictionary[type, ForwardGraph | None] = weakref.WeakKeyDictionary()
        self._on = True

    def install(self, patches: Patches) -> None:
        """Listen to the log. torch formats its records only while somebody does."""
        log, handler = logging.getLogger(_LOG), _Handler(self)
        log.addHandler(handler)
        patches.later(lambda: log.removeHandler(handler))

    def read(self, record: logging.LogRecord) -> None:
        """A record of the log. The guard of other hooks stands aside while torch compiles, so there is one here."""
        session = self.session
        if not self._on or not session.guard.alive:
            return
        began = perf_counter_ns()
        try:
            self._read(record)
        except Exception as e:  # noqa: BLE001 — a recorder that raises into a compilation is worse than none
            self._on = False
            session.guard.fault(self.name, e)
        session.guard.recorder_ns += perf_counter_ns() - began

    def graph_of(self, node: Any) -> ForwardGraph | None:
        """The forward graph of a node for which ``is_compiled`` holds; None where its log record was not seen."""
        made = node._forward_cls
        if made not in self._known:
            self._known[made] = self._find(node)
        return self._known[made]

    def __bool__(self) -> bool:
        """Whether anything was compiled."""
        return bool(self._waiting or self._known)

    # -- the log ------------------------------------------------------------------------------------------------------------

    def _read(self, record: logging.LogRecord) -> None:
        metadata: Any = getattr(record, "metadata", None)
        text = getattr(record, "payload", None)
        if not isinstance(metadata, dict) or not isinstance(text, str):
            return
        frame, count = metadata.get("frame_id"), metadata.get("frame_compile_id")
        compile_id = f"{frame}/{count}" if frame is not None and count is not None else None
        if "dynamo_output_graph" in metadata:
            graph = _graph_at("gm")
            traced = traced_by_dynamo(self.session, graph, text) if graph is not None else Traced([], {})
            self._traced = (compile_id, traced)
        elif "aot_forward_graph" in metadata:
            graph = _graph_at("fw_module")
            stacks = None
            if graph is not None:
                stacks = {node.name: stack_of(self.session, node.meta) for node in graph.graph.nodes}
            traced = self._traced[1] if self._traced[0] == compile_id else Traced([], {})
            self._waiting.append(_Logged(compile_id, text, stacks, traced))

    def _find(self, node: Any) -> ForwardGraph | None:
        """Read the logged graph that this node belongs to: by torch's number of the compilation, then by the shapes saved."""
        compile_id = getattr(node.metadata, "compile_id_str", None) if hasattr(node, "metadata") else None
        tensors = tensors_of(node)
        more = len(getattr(node, "symints", ())) + len(getattr(node, "opaque_objects", ()))
        for logged in self._waiting:
            if compile_id is not None and logged.compile_id is not None and compile_id != logged.compile_id:
                continue
            graph = read_graph(logged.text)
            names = graph.outputs[len(graph.outputs) - more - len(tensors) :][: len(tensors)]
            if len(names) == len(tensors) and all(
                _fits(graph.kinds.get(name, ""), tensor) for name, tensor in zip(names, tensors, strict=True)
            ):
                self._waiting.remove(logged)
                stacks = logged.stacks if logged.stacks is not None else aligned(graph, logged.traced.steps)
                return _forward_graph(graph, names, stacks, logged.traced.parameters)
        return None


class _Handler(logging.Handler):
    def __init__(self, graphs: CompiledGraphs) -> None:
        super().__init__()
        self._graphs = graphs

    def emit(self, record: logging.LogRecord) -> None:
        self._graphs.read(record)


def is_compiled(node: Any) -> bool:
    """Whether an autograd node stands for the forward of compiled code."""
    return type(node).__name__ == "CompiledFunctionBackward" and hasattr(node, "_forward_cls")


def tensors_of(node: Any) -> list[Tensor]:
    """What the node of a compiled forward has saved; nothing after its backward, or once one was changed in place."""
    try:
        return [*node.saved_tensors, *getattr(node, "_tensors_no_vc_check", ())]
    except RuntimeError:
        return []


def _graph_at(name: str) -> "torch.fx.GraphModule | None":
    """The graph that the function which writes this record has in a variable of that name. No other frame is looked into:
    reading the variables of a frame keeps what is in them alive until it returns."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and frame.f_code.co_name != "trace_structured":
        frame = frame.f_back
    writer = frame.f_back if frame is not None else None
    graph = writer.f_locals.get(name) if writer is not None else None
    return graph if isinstance(graph, torch.fx.GraphModule) else None


# -- what a graph saves ----------------------------------------------------------------------------------------------------


def _fits(kind: str, tensor: Tensor) -> bool:
    shape = sizes(kind)
    return (
        shape is not None
        and len(shape) == tensor.dim()
        and all(size is None or size == there for size, there in zip(shape, tensor.shape, strict=True))
    )


def _forward_graph(
    graph: GraphText, names: list[str], stacks: dict[str, Stack], parameters: dict[int, weakref.ref[Tensor]]
) -> ForwardGraph:
    positions = {name: i for i, name in enumerate(graph.operations)}
    users: dict[str, list[str]] = {}
    for operation in graph.operations.values():
        for given in operation.inputs:
            users.setdefault(given, []).append(operation.name)
    index = {name: i for i, name in enumerate(names)}
    saved = [
        _saved(graph.operations[name], positions[name], graph, index, stacks, users)
        if name in graph.operations
        else None
        for name in names
    ]
    operands: list[Operand] = []
    for operation in graph.operations.values():
        stack = stacks.get(operation.name, ())
        module = stack[-1] if stack else None
        roles = [] if operation.item else list(_roles(operation))
        if not operation.item or operation.name in index:
            roles.append(("result", operation.name))
        operands += [
            Operand(positions[operation.name], operation.operator, role, index[value], module, _source(operation))
            for role, value in roles
            if value in index
        ]
    given = [i for name, i in graph.inputs.items() if sizes(graph.kinds[name]) is not None]
    return ForwardGraph(saved, operands, [parameters.get(i) if i is not None else None for i in given])


def _saved(
    operation: Operation,
    position: int,
    graph: GraphText,
    index: dict[str, int],
    stacks: dict[str, Stack],
    users: dict[str, list[str]],
) -> Saved:
    made = _made_by(operation, graph)
    stack = stacks.get(made.name, ())
    module = stack[-1] if stack else None
    used = users.get(operation.name, [])
    return Saved(
        name=made.name,
        position=position,
        operator=made.operator,
        module=module,
        output=module is not None and bool(used) and all(module not in stacks.get(user, ()) for user in used),
        source=_source(made),
        unsaved=_unsaved(operation, graph, index),
    )


def _made_by(operation: Operation, graph: GraphText) -> Operation:
    """The operation that computed a value which others have only laid out again since."""
    while operation.operator.rpartition(".")[2] in LAYOUT and operation.inputs[:1]:
        before = graph.operations.get(operation.inputs[0])
        if before is None:
            break
        operation = before
    return operation


def _source(operation: Operation) -> str | None:
    file, _, line = (operation.file or "").rpartition(":")
    return f"{shown(file)}:{line}" if file else None


def _unsaved(operation: Operation, graph: GraphText, index: dict[str, int]) -> str | None:
    """Operators whose results went into a value and were not saved, the nearest first."""
    found: list[str] = []
    todo = deque(operation.inputs)
    seen: set[str] = set()
    while todo:
        name = todo.popleft()
        before = graph.operations.get(name)
        if before is None or name in index or name in seen:
            continue
        seen.add(name)
        if not before.item and before.operator and before.operator.rpartition(".")[2] not in LAYOUT:
            found.append(before.operator)
        todo += before.inputs
    operators = list(dict.fromkeys(found))
    more = len(operators) - _LONGEST_PATH
    return ", ".join(operators[:_LONGEST_PATH]) + (f" and {more} more" if more > 0 else "") or None


def _roles(operation: Operation) -> Iterable[tuple[str, str]]:
    """(name of the argument, value) of an operation's arguments, as torch's own schema calls them."""
    library, _, name = operation.operator.partition(".")
    overload = getattr(getattr(getattr(torch.ops, library, None), name, None), operation.overload or "default", None)
    schema = getattr(overload, "_schema", None)
    if schema is None:
        return
    names = [argument.name for argument in schema.arguments]
    for where, value in operation.arguments:
        if isinstance(where, str):
            yield where, value
        elif where < len(names):
            yield names[where], value

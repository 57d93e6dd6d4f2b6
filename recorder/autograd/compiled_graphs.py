"""The forward graphs that torch.compile makes, as its structured trace log tells them; nothing is added to any graph.

A handler on that log gets the text of each graph, when it is made and when it comes out of a cache. The module in whose forward
an operation ran stands in the graph itself, which exists while the record is written. A cached graph has none: there it is
found from the graph that dynamo traced, which holds the modules too, by script line, by the parameters an operation is given,
and by its name. Where that leaves more than one module, the innermost that they have in common is meant, or none.

What cannot be seen, because no autograd node holds it: forwards without gradients, activations that are computed again in the
backward (checkpointing, and what the partitioner finds cheaper to compute than to keep), and whatever else it does not save.
Of these only the operators are named that lie between two saved values.
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

from ..session.patches import Patches
from ..session.session import Session
from .graph_text import GraphText, Operation, read_graph, sizes

PART = "compiled-graphs"
"""Slug of this part of the recorder."""

_LOG = "torch.__trace"
_MOST_WAITING = 256
"""Graphs that are kept until their first backward."""
_FRAMES = 16
"""Frames between the log and the function that has the graph."""
_LONGEST_PATH = 4
"""Operators that are named between two saved values."""

_LAYOUT = {"t", "transpose", "permute", "view", "reshape", "unsqueeze", "squeeze", "expand", "clone", "_to_copy", "convert_element_type", "alias", "detach", "slice", "select", "_unsafe_view"}  # fmt: skip
"""Operators that only lay values out anew."""

_SAME = {"truediv": "div", "linear": "addmm", "matmul": "mm", "layer_norm": "native_layer_norm"}
"""What dynamo calls an operator, and aten."""

Stack = tuple[weakref.ref[nn.Module], ...]
"""Modules whose forward is running, outermost first; empty in code of the compiled function itself. A module that lives has
one weak reference: two are of the same module where they are the same object."""


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
    code: str | None
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
    infinite: set[int] | None = None
    """Saved values that were infinite in a healthy step, and may be; None before the first look."""


@dataclass(slots=True)
class _Traced:
    """An operation as dynamo traced it."""

    operator: str
    file: str | None
    stack: Stack
    inputs: set[int]
    """Positions of the graph's inputs among its arguments."""


@dataclass(slots=True)
class _Logged:
    """A forward graph that no backward has shown yet. ``stacks`` is None for one out of a cache."""

    compile_id: str | None
    text: str
    stacks: dict[str, Stack] | None
    traced: list[_Traced]


class CompiledGraphs(logging.Handler):
    """A handler of torch's structured trace log; knows the forward graph behind each autograd node of compiled code."""

    def __init__(self, session: Session) -> None:
        super().__init__()
        self.session = session
        self.lost: tuple[int, int | None] | None = None
        """Step in which a lost value was found in compiled code last, and its module_id."""
        self._traced: dict[str | None, list[_Traced]] = {}
        self._waiting: deque[_Logged] = deque(maxlen=_MOST_WAITING)
        self._known: weakref.WeakKeyDictionary[type, ForwardGraph | None] = weakref.WeakKeyDictionary()
        self._on = True

    def install(self, patches: Patches) -> None:
        """Listen to the log. torch formats its records only while somebody does."""
        log = logging.getLogger(_LOG)
        log.addHandler(self)
        patches.later(lambda: log.removeHandler(self))

    def emit(self, record: logging.LogRecord) -> None:
        """A record of the log. The guard of other hooks stands aside while torch compiles, so there is one here."""
        session = self.session
        if not self._on or not session.alive:
            return
        began = perf_counter_ns()
        try:
            self._read(record)
        except Exception as e:  # noqa: BLE001 — a recorder that raises into a compilation is worse than none
            self._on = False
            session.fault(PART, e)
        session.recorder_ns += perf_counter_ns() - began

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
            self._traced = {compile_id: _traced(self.session, graph, text) if graph is not None else []}
        elif "aot_forward_graph" in metadata:
            graph = _graph_at("fw_module")
            stacks = None
            if graph is not None:
                stacks = {node.name: _stack(self.session, node.meta) for node in graph.graph.nodes}
            self._waiting.append(_Logged(compile_id, text, stacks, self._traced.get(compile_id, [])))

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
                stacks = logged.stacks if logged.stacks is not None else _aligned(graph, logged.traced)
                return _forward_graph(graph, names, stacks)
        return None


def is_compiled(node: Any) -> bool:
    """Whether an autograd node stands for the forward of compiled code."""
    return type(node).__name__ == "CompiledFunctionBackward" and hasattr(node, "_forward_cls")


def tensors_of(node: Any) -> list[Tensor]:
    """What the node of a compiled forward has saved; nothing after its backward, or once one was changed in place."""
    try:
        return [*node.saved_tensors, *getattr(node, "_tensors_no_vc_check", ())]
    except RuntimeError:
        return []


# -- modules --------------------------------------------------------------------------------------------------------------------


def _graph_at(name: str) -> "torch.fx.GraphModule | None":
    """The graph that the function which writes this record has in a variable of that name."""
    frame: FrameType | None = sys._getframe(2)
    for _ in range(_FRAMES):
        if frame is None:
            break
        if frame.f_code.co_name != "trace_structured":
            graph = frame.f_locals.get(name)
            if isinstance(graph, torch.fx.GraphModule):
                return graph
        frame = frame.f_back
    return None


def _stack(session: Session, meta: dict[str, Any]) -> Stack:
    """Modules in whose forward a node of a graph was traced: torch notes them by their ``id()``."""
    found: list[weakref.ref[nn.Module]] = []
    for key in meta.get("nn_module_stack") or ():
        number = str(key).partition("@")[0]
        module = session.catalogue.alive(int(number)) if number.isdigit() else None
        if module is not None:
            found.append(weakref.ref(module))
    return tuple(found)


def _traced(session: Session, graph: "torch.fx.GraphModule", text: str) -> list[_Traced]:
    places = read_graph(text).operations
    inputs = {node: i for i, node in enumerate(n for n in graph.graph.nodes if n.op == "placeholder")}
    traced: list[_Traced] = []
    for node in graph.graph.nodes:
        if node.op.startswith("call"):
            place = places.get(node.name)
            name = node.target if isinstance(node.target, str) else getattr(node.target, "__name__", "")
            given = {inputs[n] for n in node.all_input_nodes if n in inputs}
            traced.append(
                _Traced(name.strip("_"), place.file if place is not None else None, _stack(session, node.meta), given)
            )
    return traced


def _aligned(graph: GraphText, traced: list[_Traced]) -> dict[str, Stack]:
    """Modules of a graph out of a cache, from what dynamo traced: an input that only one operation is given tells which one
    stands behind an operation of the graph, and what lies between two of them was traced between them."""
    users: dict[int, set[int]] = {}
    for i, operation in enumerate(traced):
        for given in operation.inputs:
            users.setdefault(given, set()).add(i)
    only = {given: next(iter(of)) for given, of in users.items() if len(of) == 1}
    known: dict[str, int] = {}
    """Operation → the one traced, where it is certain."""
    for name, operation in graph.operations.items():
        given = [graph.inputs[i] for i in operation.inputs if i in graph.inputs]
        sure = {only[i] for i in given if i is not None and i in only}
        sure |= {known[i] for i in operation.inputs if i in known and _only_lays_out(graph, i)}
        if len(sure) == 1:
            known[name] = sure.pop()
    first: dict[str, int] = {}
    for name, operation in graph.operations.items():
        first[name] = known.get(name, max((first.get(i, 0) for i in operation.inputs), default=0))
    last: dict[str, int] = {}
    for name, operation in reversed(graph.operations.items()):
        last[name] = known.get(name, last.get(name, len(traced) - 1))
        for i in operation.inputs:
            last[i] = min(last.get(i, len(traced) - 1), last[name])
    return {
        name: traced[known[name]].stack if name in known else _between(operation, traced, first[name], last[name])
        for name, operation in graph.operations.items()
    }


def _only_lays_out(graph: GraphText, name: str) -> bool:
    """Whether an operation hands on an input of the graph in another shape."""
    operation = graph.operations[name]
    return operation.operator.rpartition(".")[2] in _LAYOUT and all(i in graph.inputs for i in operation.inputs)


def _between(operation: Operation, traced: list[_Traced], first: int, last: int) -> Stack:
    """Modules of an operation that was traced somewhere from ``first`` to ``last``."""
    candidates = [t for t in traced[first : last + 1] if t.file == operation.file]
    name = operation.operator.rpartition(".")[2].strip("_")
    same = [t for t in candidates if name in (t.operator, _SAME.get(t.operator))]
    for chosen in (same, candidates):
        if chosen and len({tuple(map(id, t.stack)) for t in chosen}) == 1:
            return chosen[0].stack
    common: list[weakref.ref[nn.Module]] = []
    for level in zip(*(t.stack for t in candidates), strict=False):
        if any(module is not level[0] for module in level):
            break
        common.append(level[0])
    return tuple(common)


# -- what a graph saves -----------------------------------------------------------------------------------------------------------


def _fits(kind: str, tensor: Tensor) -> bool:
    shape = sizes(kind)
    return (
        shape is not None
        and len(shape) == tensor.dim()
        and all(size is None or size == there for size, there in zip(shape, tensor.shape, strict=True))
    )


def _forward_graph(graph: GraphText, names: list[str], stacks: dict[str, Stack]) -> ForwardGraph:
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
            Operand(positions[operation.name], operation.operator, role, index[value], module, operation.file)
            for role, value in roles
            if value in index
        ]
    return ForwardGraph(saved, operands)


def _saved(
    operation: Operation,
    position: int,
    graph: GraphText,
    index: dict[str, int],
    stacks: dict[str, Stack],
    users: dict[str, list[str]],
) -> Saved:
    stack = stacks.get(operation.name, ())
    module = stack[-1] if stack else None
    used = users.get(operation.name, [])
    return Saved(
        name=operation.name,
        position=position,
        operator=operation.operator,
        module=module,
        output=module is not None and bool(used) and all(module not in stacks.get(user, ()) for user in used),
        source=operation.file,
        code=operation.code,
        unsaved=_unsaved(operation, graph, index),
    )


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
        if not before.item and before.operator and before.operator.rpartition(".")[2] not in _LAYOUT:
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

"""In which module's forward an operation of a compiled graph runs.

torch notes the modules in each graph that it traces. A graph out of a cache has no notes: there they come from the graph that
dynamo traced just before, matched by script line, by the parameters that an operation is given, and by its name. And one graph
may serve several instances of a class: the parameters that an autograd node was given tell whose forward it was. Where all that
leaves more than one module, the innermost that they have in common is meant, or the one whose forward called the compiled code.
"""

import weakref
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from ..script.wrappers import unwrapped
from ..session.registry import ModuleEntry, submodule
from ..session.session import Session
from .graph_text import GraphText, Operation, read_graph

LAYOUT = {
    "t", "transpose", "permute", "view", "reshape", "unsqueeze", "squeeze", "expand", "clone", "_to_copy", "alias", "detach",
    "slice", "select", "_unsafe_view", "convert_element_type",
}  # fmt: skip
"""Operators that only lay values out again."""

_SAME = {"truediv": "div", "linear": "addmm", "matmul": "mm", "layer_norm": "native_layer_norm"}
"""What dynamo calls an operator, and aten."""

Stack = tuple[weakref.ref[nn.Module], ...]
"""Modules whose forward is running, outermost first; empty in code of the compiled function itself. A module that lives has
one weak reference without a callback: two are of the same module where they are the same object."""


_Move = tuple[int, tuple[str, ...], nn.Module, tuple[str, ...]]
"""module_id of the traced model, name of a part of it, and the model and name of the part that stands there now."""


@dataclass(slots=True)
class _Step:
    """An operation as dynamo traced it."""

    operator: str
    file: str | None
    stack: Stack
    inputs: set[int]
    """Positions of the graph's inputs among its arguments."""


@dataclass(slots=True)
class Traced:
    """What dynamo traced: its operations, and the parameters among its inputs, by position."""

    steps: list[_Step]
    parameters: dict[int, weakref.ref[Tensor]]


def stack_of(session: Session, meta: dict[str, Any]) -> Stack:
    """Modules in whose forward a node of a graph was traced: torch notes them by their ``id()``, while they run."""
    found: list[weakref.ref[nn.Module]] = []
    for key in meta.get("nn_module_stack") or ():
        number = str(key).partition("@")[0]
        module = session.catalogue.alive(int(number)) if number.isdigit() else None
        if module is not None:
            found.append(weakref.ref(module))
    return tuple(found)


def traced_by_dynamo(session: Session, graph: "torch.fx.GraphModule", text: str) -> Traced:
    """Read a graph of dynamo's, and the text of it."""
    places = read_graph(text).operations
    inputs = {node: i for i, node in enumerate(n for n in graph.graph.nodes if n.op == "placeholder")}
    parameters: dict[int, weakref.ref[Tensor]] = {}
    for node, i in inputs.items():
        example = getattr(node.meta.get("grapharg"), "example", None)
        if isinstance(example, nn.Parameter):
            parameters[i] = weakref.ref(example)
    steps: list[_Step] = []
    for node in graph.graph.nodes:
        if node.op.startswith("call"):
            place = places.get(node.name)
            name = node.target if isinstance(node.target, str) else getattr(node.target, "__name__", "")
            given = {inputs[n] for n in node.all_input_nodes if n in inputs}
            file = place.file if place is not None else None
            steps.append(_Step(name.strip("_"), file, stack_of(session, node.meta), given))
    return Traced(steps, parameters)


def aligned(graph: GraphText, steps: list[_Step]) -> dict[str, Stack]:
    """Modules of a graph out of a cache. An input that only one operation is given tells which one stands behind an operation
    of the graph; what lies between two of them was traced between them."""
    users: dict[int, set[int]] = {}
    for i, step in enumerate(steps):
        for given in step.inputs:
            users.setdefault(given, set()).add(i)
    only = {given: next(iter(of)) for given, of in users.items() if len(of) == 1}
    known: dict[str, int] = {}
    """Operation → the one traced, where it is certain."""
    for name, operation in graph.operations.items():
        given = [graph.inputs[i] for i in operation.inputs if i in graph.inputs]
        sure = {only[i] for i in given if i is not None and i in only}
        sure |= {known[i] for i in operation.inputs if i in known and _hands_on(graph, i)}
        if len(sure) == 1:
            known[name] = sure.pop()
    first: dict[str, int] = {}
    for name, operation in graph.operations.items():
        first[name] = known.get(name, max((first.get(i, 0) for i in operation.inputs), default=0))
    last: dict[str, int] = {}
    for name, operation in reversed(graph.operations.items()):
        last[name] = known.get(name, last.get(name, len(steps) - 1))
        for i in operation.inputs:
            last[i] = min(last.get(i, len(steps) - 1), last[name])
    stacks: dict[str, Stack] = {}
    for name, operation in graph.operations.items():
        if operation.item:
            stacks[name] = stacks[operation.inputs[0]]
        elif name in known:
            stacks[name] = steps[known[name]].stack
        else:
            stacks[name] = _between(operation, steps, first[name], last[name])
    return stacks


def _hands_on(graph: GraphText, name: str) -> bool:
    """Whether an operation hands on an input of the graph in another shape."""
    operation = graph.operations[name]
    return operation.operator.rpartition(".")[2] in LAYOUT and all(i in graph.inputs for i in operation.inputs)


def _between(operation: Operation, steps: list[_Step], first: int, last: int) -> Stack:
    """Modules of an operation that was traced somewhere from ``first`` to ``last``."""
    candidates = [t for t in steps[first : last + 1] if t.file == operation.file]
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


class Places:
    """The modules of one run of a compiled graph, that of one autograd node."""

    def __init__(self, session: Session, parameters: list[weakref.ref[Tensor] | None], node: Any) -> None:
        """``parameters`` are those with which the graph was traced, one for each input of the node, None for other inputs."""
        self.session = session
        number = session.answers.module_of(node._sequence_nr())
        self.around = session.catalogue.module(number) if number is not None else None
        """The module whose forward called the compiled code."""
        self._confirmed = False
        self._others: list[tuple[Tensor, Tensor]] = []
        """Parameters of the trace, and what stands in their place in this run."""
        self._moves: set[_Move] | None = None
        if len(parameters) == len(node.next_functions):
            for ref, (behind, _) in zip(parameters, node.next_functions, strict=True):
                traced, now = ref() if ref is not None else None, getattr(behind, "variable", None)
                if traced is not None and isinstance(now, Tensor):
                    self._confirmed = self._confirmed or now is traced
                    if now is not traced:
                        self._others.append((traced, now))

    def entry(self, ref: weakref.ref[nn.Module] | None) -> ModuleEntry | None:
        """Entry of the module that stands in this run where that one stood in the trace."""
        traced = entry_of(self.session, ref() if ref is not None else None)
        if traced is None:
            return self.around
        if self._others:
            traced = self._moved(traced)
        elif not self._confirmed and self.around is None:
            return None  # nothing tells which instance it was
        return traced if traced is not None and (self.around is None or _within(traced, self.around)) else self.around

    def _moved(self, traced: ModuleEntry) -> ModuleEntry | None:
        """The module of another instance that has the same name within it."""
        inside = tuple(traced.name.split(".")) if traced.name else ()
        found: dict[int, ModuleEntry] = {}
        self._moves = self._moves if self._moves is not None else self._compare()
        for root_id, old, root, new in self._moves:
            if traced.root.id != root_id or inside[: len(old)] != old:
                continue
            moved = entry_of(self.session, submodule(root, ".".join((*new, *inside[len(old) :]))))
            if moved is not None:
                found[moved.id] = moved
        return next(iter(found.values())) if len(found) == 1 else None

    def _compare(self) -> "set[_Move]":
        """Which part of a model stands where another was traced, by the names of their parameters."""
        catalogue = self.session.catalogue
        moves: set[_Move] = set()
        for one, other in self._others:
            before, after = catalogue.described(one), catalogue.described(other)
            root = after[0].root.ref() if after is not None else None
            if before is None or after is None or root is None:
                continue
            old, new = before[1].split("."), after[1].split(".")
            while old and new and old[-1] == new[-1]:
                old.pop()
                new.pop()
            moves.add((before[0].root.id, tuple(old), root, tuple(new)))
        return moves


def entry_of(session: Session, module: nn.Module | None) -> ModuleEntry | None:
    """Entry of a module; a model that no call and no optimizer has shown yet is found by it."""
    if module is None:
        return None
    module = unwrapped(module)
    if session.catalogue.knows(module):
        return session.catalogue.find(module)
    entry = session.catalogue.discover(module)
    session.signals.unseen_models.emit()
    return entry


def _within(entry: ModuleEntry, around: ModuleEntry) -> bool:
    if entry.root.id != around.root.id:
        return False
    return not around.name or entry.name == around.name or entry.name.startswith(f"{around.name}.")

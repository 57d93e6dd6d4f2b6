"""Reads the text of a forward graph, as torch prints it for its structured trace log.

The text is all that a cache hit of torch.compile still has: the graph itself is not made again then. One line is one
operation, a comment above it names the line of the script that it came from, and what is saved for backward is returned last.
"""

import re
from collections.abc import Container, Iterator
from dataclasses import dataclass, field

_DEFINITION = re.compile(r"^\s+(\w+)(?:: \"([^\"]*)\")? = (.+)$")
_INPUT = re.compile(r"(\w+): \"([^\"]*)\"")
_INDEX = re.compile(r"PlainAOTInput\(idx=(\d+)\)")
_PLACE = re.compile(r"File: (.+):(\d+) in \S+, code: ")
_OPERATOR = re.compile(r"^torch\.ops\.(\w+)\.(\w+)\.?(\w*)\(")
_ITEM = re.compile(r"^(\w+)\[\d+\]$")
_NAME = re.compile(r"[A-Za-z_]\w*")


@dataclass(slots=True)
class Operation:
    """One operation of a graph."""

    name: str
    operator: str
    """Such as aten.addmm; for an item of several results that of the operator; empty where it is none of torch's."""
    overload: str
    inputs: tuple[str, ...]
    arguments: tuple[tuple[int | str, str], ...]
    """Arguments that are one value each: position or keyword, and name of the value."""
    file: str | None
    """Line of the script, as ``train.py:12``."""
    kind: str
    """dtype, shape, strides and device, as torch writes them; empty where torch writes none."""
    item: bool
    """Whether it only takes one of several results."""


@dataclass(slots=True)
class GraphText:
    """A graph, as far as its text could be read."""

    inputs: dict[str, int | None] = field(default_factory=dict)
    """Name → position among the inputs that torch.compile found; None for one that it added."""
    kinds: dict[str, str] = field(default_factory=dict)
    """Name → kind, of inputs and of what operations make."""
    operations: dict[str, Operation] = field(default_factory=dict)
    outputs: list[str] = field(default_factory=list)


def read_graph(text: str) -> GraphText:
    """The first graph in a text; sub-graphs that follow it are left out, and so is every line that is not understood."""
    graph = GraphText()
    lines = iter(text.splitlines())
    for line in lines:
        if line.lstrip().startswith("def forward("):
            _read_inputs(graph, line, lines)
            break
    file: str | None = None
    for line in lines:
        stripped = line.strip()
        if stripped.startswith("#"):
            found = _PLACE.search(stripped)
            file = f"{found[1]}:{found[2]}" if found is not None else None
        elif stripped.startswith("return"):
            _read_outputs(graph, stripped, lines)
            break
        elif (found := _DEFINITION.match(line)) is not None:
            _add(graph, found[1], found[2] or "", found[3].partition(";  ")[0], file)
    return graph


def _read_inputs(graph: GraphText, line: str, lines: Iterator[str]) -> None:
    """Names between ``def forward(`` and ``):``, on one line or on one line each."""
    ended = False
    while not ended:
        index = _INDEX.search(line)
        for found in _INPUT.finditer(line):
            graph.inputs[found[1]] = int(index[1]) if index is not None else None
            graph.kinds[found[1]] = found[2]
        ended = line.rstrip().endswith("):")
        line = line if ended else next(lines, "):")


def _read_outputs(graph: GraphText, line: str, lines: Iterator[str]) -> None:
    """Names between ``return (`` and ``)``, on one line or on one line each."""
    ended = False
    line = line.removeprefix("return")
    while not ended:
        graph.outputs += _NAME.findall(line.partition("#")[0])
        ended = line.partition("#")[0].rstrip().endswith(")") or not line.strip()
        line = line if ended else next(lines, "")


def _add(graph: GraphText, name: str, kind: str, value: str, file: str | None) -> None:
    known = graph.kinds
    taken = _ITEM.match(value)
    if taken is not None and (whole := graph.operations.get(taken[1])) is not None:
        operation = Operation(name, whole.operator, whole.overload, (whole.name,), (), file, kind, item=True)
    else:
        called = _OPERATOR.match(value)
        arguments = value[called.end() :].rstrip(")") if called is not None else value
        inputs = tuple(dict.fromkeys(word for word in _NAME.findall(arguments) if word in known))
        operator, overload = (f"{called[1]}.{called[2]}", called[3]) if called is not None else ("", "")
        operation = Operation(
            name, operator, overload, inputs, tuple(_values(arguments, known)), file, kind, item=False
        )
    graph.operations[name] = operation
    graph.kinds[name] = kind


def _values(arguments: str, known: Container[str]) -> Iterator[tuple[int | str, str]]:
    """Arguments of a call that are one value each."""
    depth, part, parts = 0, "", []
    for letter in arguments:
        depth += (letter in "([{") - (letter in ")]}")
        if letter == "," and depth == 0:
            parts.append(part)
            part = ""
        else:
            part += letter
    for position, text in enumerate([*parts, part]):
        keyword, equals, value = text.partition(" = ")
        name = (value if equals else keyword).strip()
        if name in known:
            yield (keyword.strip() if equals else position), name


def sizes(kind: str) -> list[int | None] | None:
    """Shape of a kind such as ``f32[s77, 16][16, 1]cpu``, None for a size that varies; None for what is no tensor."""
    found = re.match(r"^\w+\[([^\]]*)\]", kind)
    if found is None:
        return None
    return [int(size) if size.isdigit() else None for size in found[1].replace(" ", "").split(",") if size]

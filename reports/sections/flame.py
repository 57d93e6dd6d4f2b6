"""The time of a profiled step as a tree: phase, module by module, operator; and laid out as bars on bars.

A bar is as wide as what runs in it takes, on average over the profiled steps. Small bars beside each other become one, so that a
page holds some hundred bars whatever the model is.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

MOST_BARS = 300
DEEPEST = 14
"""Levels of modules that are drawn; what lies deeper stands in the last of them."""

_SMALLEST = 0.0005  # share of the step that is a bar of its own where there is room for it
OUTSIDE = "outside forward, backward and optimizer"
REST = "between operators"
WHOLE = "whole profile"
"""The root where no step is marked."""
_ORDER = {"forward": 0, "backward": 1, "optimizer": 2, REST: 4}


@dataclass(slots=True)
class Node:
    """One bar: ``ns`` a step with everything inside, ``calls`` a step of an operator, 0 for what is none."""

    name: str
    ns: float = 0.0
    calls: float = 0.0
    children: dict[str, "Node"] = field(default_factory=dict[str, "Node"])


def tree_of(rows: Iterable[dict[str, Any]], step_ns: float, whole: str = "step") -> Node:
    """The tree of rows with phase, model, module, operator, ns and calls, the last two a step; ``whole`` names the root.

    A module stands inside the modules that its name says it is in. Names of models are a level where there are several.
    """
    rows = list(rows)
    models = {row["model"] for row in rows if row["model"] is not None}
    root = Node(whole)
    for row in rows:
        path = [row["phase"] or OUTSIDE]
        if row["model"] is not None and len(models) > 1:
            path.append(row["model"])
        steps = row["module"].split(".") if row["module"] else []
        if len(steps) > DEEPEST:
            steps = [*steps[: DEEPEST - 1], ".".join(steps[DEEPEST - 1 :])]
        node = root
        node.ns += row["ns"]
        # an operator may be called like a module: a blank keeps the two apart
        for key, name in [*((step, step) for step in [*path, *steps]), (f" {row['operator']}", row["operator"])]:
            node = node.children.setdefault(key, Node(name))
            node.ns += row["ns"]
        node.calls += row["calls"]
    if step_ns > root.ns:
        root.children[REST] = Node(REST, step_ns - root.ns)
        root.ns = step_ns
    for phase in root.children.values():
        _chains(phase)
    return root


def _chains(node: Node) -> Node:
    """Modules that hold nothing but one other module become one bar with it: `encoder.layers`."""
    for key, child in node.children.items():
        while not child.calls and len(child.children) == 1 and not (only := next(iter(child.children.values()))).calls:
            child.name, child.children = f"{child.name}.{only.name}", only.children
        node.children[key] = _chains(child)
    return node


@dataclass(frozen=True, slots=True)
class Bar:
    """From where to where, in milliseconds of a step; ``depth`` 0 is the step; ``phase`` gives the colour."""

    name: str
    path: str
    phase: str
    depth: int
    start: float
    end: float
    calls: float
    leaf: bool


def bars_of(root: Node, most: int = MOST_BARS) -> list[Bar]:
    """The bars of a tree, phases in their order, else the widest first; at most ``most``: small ones become one that says how
    many they were."""
    smallest = root.ns * _SMALLEST
    while True:
        bars = list(_bars(root, 0, 0.0, "", "", smallest))
        if len(bars) <= most or smallest >= root.ns:
            return bars
        smallest *= 1.4


def _bars(node: Node, depth: int, start: float, path: str, phase: str, smallest: float) -> Iterator[Bar]:
    yield Bar(
        node.name, path or node.name, phase, depth, start / 1e6, (start + node.ns) / 1e6, node.calls, not node.children
    )
    small: list[Node] = []
    for child in sorted(node.children.values(), key=lambda c: (_ORDER.get(c.name, 3) if depth == 0 else 0, -c.ns)):
        if child.ns < smallest:
            small.append(child)
            continue
        inside = f"{path} › {child.name}" if path else child.name
        yield from _bars(child, depth + 1, start, inside, phase or child.name, smallest)
        start += child.ns
    merged = sum(c.ns for c in small)
    if merged >= smallest / 10 and small:
        name = small[0].name if len(small) == 1 else f"{len(small)} others"
        inside = f"{path} › {name}" if path else name
        calls = sum(c.calls for c in small)
        yield Bar(name, inside, phase or name, depth + 1, start / 1e6, (start + merged) / 1e6, calls, leaf=True)

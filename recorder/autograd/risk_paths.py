"""The way from a loss to those operators of its graph whose derivative can be undefined, learnt once, to look at no more than
these where walking through the graph at each step would take too long."""

from typing import Any

from torch import Tensor

_MOST = 8
"""Operators that are looked at, nearest to the loss first: each look takes about ten microseconds."""

_NODES = 512
"""Nodes in which the ways are searched."""


class RiskPaths:
    """Ways as places among the next functions of each node. All graphs are taken to be built as the one they were learnt from; a
    way that ends at another operator, or nowhere, is passed over."""

    def __init__(self) -> None:
        self._shape: tuple[int, int] | None = None
        self._ways: list[tuple[tuple[int, ...], str]] = []

    def __len__(self) -> int:
        return len(self._ways)

    def learn(self, loss: Tensor, risky: list[Any], shape: tuple[int, int]) -> None:
        """Find the ways to these nodes, unless the graph is of the shape that was seen last."""
        if shape == self._shape:
            return
        self._shape, self._ways = shape, []
        wanted = set(risky)
        first: Any = loss.grad_fn
        ways: dict[Any, tuple[int, ...]] = {first: ()}
        todo = [first]
        for node in todo:
            if node in wanted:
                self._ways.append((ways[node], type(node).__name__))
                if len(self._ways) == _MOST:
                    return
            for place, (behind, _) in enumerate(node.next_functions):
                if behind is not None and behind not in ways and len(todo) < _NODES:
                    ways[behind] = (*ways[node], place)
                    todo.append(behind)

    def ends(self, loss: Tensor) -> list[Any]:
        """The nodes at the ends of the ways through the graph of this loss."""
        found = []
        for way, name in self._ways:
            node: Any = loss.grad_fn
            for place in way:
                after = node.next_functions
                node = after[place][0] if place < len(after) else None
                if node is None:
                    break
            if type(node).__name__ == name:
                found.append(node)
        return found

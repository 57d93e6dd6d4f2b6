"""What an iteration takes out of the graph and brings in again: ``.detach()``, ``.data``, and what is computed without gradients.

The loss's own differences follow such a value, and autograd does not. Where all weights behind it get a gradient by another way,
as under a stop-gradient of contrastive learning or of a predictor of durations, it is meant so.
"""

from collections.abc import Collection, Iterable
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils.weak import WeakTensorKeyDictionary

from ..script.frames import caller

_MOST_NODES = 100_000


class DetachedInside(TorchFunctionMode):
    """Follows the values that have left the graph, for one iteration. Not to be entered twice."""

    def __init__(self, parameters: Iterable[Tensor]) -> None:
        super().__init__()
        self.behind: set[int] = set()
        """Ids of the parameters behind values that were taken out and came back."""
        self.place = ""
        """Where the first of them was taken out."""
        self._trained = {id(p) for p in parameters}
        self._taken_out = WeakTensorKeyDictionary()
        """Value → (ids of the parameters behind it, where it was taken out)."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Look at every operator that the training calls."""
        result = func(*args, **(kwargs or {}))
        given = [t for t in _flat((args, kwargs)) if isinstance(t, Tensor)]
        made = [t for t in _flat(result) if isinstance(t, Tensor)]
        if not given or not made:
            return result
        graph = torch.is_grad_enabled() and any(t.requires_grad for t in made)
        known = [self._taken_out[t] for t in given if t in self._taken_out]
        if graph:
            for behind, place in known:
                self.behind |= behind
                self.place = self.place or place
            return result
        new = set[int]().union(*(self._behind(t) for t in given if t.requires_grad))
        if new:
            known.append((new, _here()))
        if known:
            together = (set[int]().union(*(behind for behind, _ in known)), known[0][1])
            for tensor in made:
                if tensor.is_floating_point():
                    self._taken_out[tensor] = together
        return result

    def _behind(self, tensor: Tensor) -> set[int]:
        """Ids of the trained parameters that a value comes from by its graph."""
        if tensor.is_leaf:
            return {id(tensor)} & self._trained
        return (leaves_behind([tensor.grad_fn]) or set[int]()) & self._trained


def leaves_behind(nodes: Iterable[Any]) -> set[int] | None:
    """Ids of the leaves that a graph ends in; None where it is very large."""
    todo = list(nodes)
    seen, leaves = set(todo), set[int]()
    while todo:
        node = todo.pop()
        if (leaf := getattr(node, "variable", None)) is not None:
            leaves.add(id(leaf))
        for behind, _ in node.next_functions:
            if behind is not None and behind not in seen:
                seen.add(behind)
                todo.append(behind)
        if len(seen) > _MOST_NODES:
            return None
    return leaves


def _here() -> str:
    place = caller()
    return "" if place is None else place.words()[0]


def _flat(value: Any, depth: int = 0) -> Collection[Any]:
    if isinstance(value, tuple | list) and depth < 4:
        return [leaf for item in value for leaf in _flat(item, depth + 1)]
    if isinstance(value, dict):
        return [leaf for item in value.values() for leaf in _flat(item, depth + 1)]
    return [value]

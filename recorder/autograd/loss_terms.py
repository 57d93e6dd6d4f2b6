"""The addends of a loss, and the leaves of the graph that each of them reaches."""

import heapq
import weakref
from collections import deque
from collections.abc import Callable
from typing import Any

from torch import Tensor
from torch.autograd.function import BackwardCFunction

from .compiled_graphs import is_compiled
from .graph import operator_name

MOST_TERMS = 16
"""A loss of more (a penalty for each weight) is split as far as so many go."""

_MOST_NODES = 10_000
_MOST_ABOVE = 512
"""Operators that a loss is put together with."""

_MODULE_AMONG = 12
"""Last operators of a term among which its module is looked for."""

_SUMS = ("Add", "Sub", "Stack", "Cat")

_KEEPS = {
    "Neg", "Mul", "Div", "Mean", "Sum", "Squeeze", "Unsqueeze", "View", "UnsafeView", "ReshapeAlias", "Expand", "Clone",
    "ToCopy", "Alias", "Select", "Rsub", "T", "Transpose", "Permute", *_SUMS,
}  # fmt: skip
"""Operators that a sum goes through as it is: linear in the one operand that has a graph."""

_LAST = 1 << 62


class Term:
    """An addend: the operator that made it, where it ran, and the weights that it reaches."""

    __slots__ = ("leaves", "module_id", "node", "op", "opaque")

    def __init__(self, node: Any) -> None:
        self.node: Any = node
        self.op = operator_name(node)
        self.module_id: int | None = None
        self.leaves: dict[int, weakref.ref[Tensor]] = {}
        """By identity."""
        self.opaque = False
        """Whether it goes through a function of the script's own, which may reach more than its graph shows."""


def terms_of(loss: Tensor, module_of: Callable[[int], int | None]) -> list[Term]:
    """The addends of a loss with what they reach; none where it is no sum, or its graph is too large to walk."""
    terms = [Term(node) for node in _addends(loss.grad_fn)]
    return terms if len(terms) > 1 and _Walk(terms, module_of).to_the_end() else []


def _addends(root: Any) -> list[Any]:
    found: list[Any] = []
    seen: set[Any] = set()
    todo = deque([root])
    while todo:
        node = todo.popleft()
        if node is None or node in seen:
            continue
        seen.add(node)
        if len(seen) > _MOST_ABOVE:
            return []
        behind = [n for n, _ in node.next_functions if n is not None]
        name = operator_name(node)
        sums = name in _SUMS and len(found) + len(todo) + len(behind) <= MOST_TERMS
        if sums or (name in _KEEPS and len(behind) == 1):
            todo.extend(behind)
        else:
            found.append(node)
    return found


class _Walk:
    """Visits what lies behind several terms, each operator once for all that reach it, later ones first."""

    def __init__(self, terms: list[Term], module_of: Callable[[int], int | None]) -> None:
        self._terms = terms
        self._module_of = module_of
        self._asked = [0] * len(terms)
        self._reached: dict[Any, int] = {}
        """Operator → terms that reach it, a bit for each."""
        self._todo: list[tuple[int, int, Any]] = []
        self._count = 0
        for number, term in enumerate(terms):
            self._arrive(term.node, 1 << number)

    def _arrive(self, node: Any, mask: int) -> None:
        known = self._reached.get(node, 0)
        if mask & ~known:
            self._reached[node] = known | mask
            self._count += 1
            heapq.heappush(self._todo, (-node._sequence_nr(), self._count, node))

    def to_the_end(self) -> bool:
        """Whether the end was reached within so many operators."""
        done: dict[Any, int] = {}
        while self._todo:
            order, _, node = heapq.heappop(self._todo)
            mask = self._reached[node]
            if done.get(node) == mask:
                continue
            done[node] = mask
            if len(done) > _MOST_NODES:
                return False
            self._note_term(node, -order, [n for n in range(len(self._terms)) if mask >> n & 1])
            for behind, _ in node.next_functions:
                if behind is not None:
                    self._arrive(behind, mask)
        return True

    def _note_term(self, node: Any, order: int, numbers: list[int]) -> None:
        leaf = (
            getattr(node, "variable", None) if order > _LAST else None
        )  # AccumulateGrad carries the largest number there is
        hides = leaf is None and (order > _LAST or (isinstance(node, BackwardCFunction) and not is_compiled(node)))
        for number in numbers:
            term = self._terms[number]
            term.opaque |= hides
            if leaf is not None:
                term.leaves[id(leaf)] = weakref.ref(leaf)
            elif term.module_id is None and order <= _LAST and self._asked[number] < _MODULE_AMONG:
                self._asked[number] += 1
                term.module_id = self._module_of(order)

"""The addends of a loss, and the leaves of the graph that each of them reaches."""

import heapq
import weakref
from collections import deque
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


def terms_of(loss: Tensor, module_of: Any) -> list[Term]:
    """The addends of a loss with what they reach; none where it is no sum, or its graph is too large to walk."""
    terms = [Term(node) for node in _addends(loss.grad_fn)]
    return terms if len(terms) > 1 and _reach(terms, module_of) else []


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


def _reach(terms: list[Term], module_of: Any) -> bool:
    """Fill in what the terms reach. Each operator is visited once for all of them; False where they are too many."""
    reached: dict[Any, int] = {}
    todo: list[tuple[int, int, Any]] = []
    asked = [0] * len(terms)
    count = 0

    def arrive(node: Any, mask: int) -> None:
        nonlocal count
        known = reached.get(node, 0)
        if mask & ~known:
            reached[node] = known | mask
            count += 1
            heapq.heappush(todo, (-node._sequence_nr(), count, node))

    for number, term in enumerate(terms):
        arrive(term.node, 1 << number)
    done: dict[Any, int] = {}
    while todo:
        order, _, node = heapq.heappop(todo)
        mask = reached[node]
        if done.get(node) == mask:
            continue
        done[node] = mask
        if len(done) > _MOST_NODES:
            return False
        mine = [term for number, term in enumerate(terms) if mask >> number & 1]
        if -order > _LAST:  # AccumulateGrad carries the largest number there is
            leaf = getattr(node, "variable", None)
            for term in mine:
                if leaf is None:
                    term.opaque = True
                else:
                    term.leaves[id(leaf)] = weakref.ref(leaf)
            continue
        for number, term in enumerate(terms):
            if mask >> number & 1 and term.module_id is None and asked[number] < _MODULE_AMONG:
                asked[number] += 1
                term.module_id = module_of(-order)
        if isinstance(node, BackwardCFunction) and not is_compiled(node):
            for term in mine:
                term.opaque = True
        for behind, _ in node.next_functions:
            if behind is not None:
                arrive(behind, mask)
    return True

"""Tensors that grow without a list: sums that keep their graph (`total += loss`) and tensors that are made longer each step.

A sum of losses is a chain of equal nodes, one for each step, and a moving average one with its weights between; what is joined
by `torch.cat` is a tensor whose first dimension rises. Both are seen by comparing two looks. Graphs are walked, not kept.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ..tensors.moments import measurable, node_of

_LONGEST_CHAIN = 1000
_MOST_NODES = 20_000
"""Nodes that one look walks over: some ten milliseconds."""

_FEW_BYTES = 4096

_WEIGHTED = ("AddBackward0", "SubBackward0", "MulBackward0", "DivBackward0")
"""What may lie between two values of a moving average."""

_MOST_BRANCHES = 4
"""Summands that are followed at a time: what is added may be a sum itself."""

Shape = tuple[Any, ...]


class TensorLook(NamedTuple):
    """What two looks are compared by."""

    step: int
    chains: dict[tuple[str, Shape], int]
    """(operator, shape) → nodes of this operator in a row behind a tensor, at most."""
    lengths: dict[tuple[torch.dtype, Shape], int]
    """(dtype, shape without the first dimension) → the largest first dimension."""
    counts: dict[tuple[torch.dtype, Shape], int]
    """(dtype, shape) → tensors."""


class GrownTensor(NamedTuple):
    """A tensor that grew from one look to the next."""

    tensor: Tensor
    steps: int
    """Nodes of its chain, or rows."""
    rate: float
    size: int
    """Bytes a step; 0 for a sum, whose memory is in the graphs behind it."""
    operator: str | None


def look_at_tensors(step: int, tensors: Iterable[Tensor]) -> TensorLook:
    """Chains and lengths now."""
    chains: dict[tuple[str, Shape], int] = {}
    lengths: dict[tuple[torch.dtype, Shape], int] = {}
    counts: Counter[tuple[torch.dtype, Shape]] = Counter()
    nodes = 0
    for tensor in tensors:
        if not measurable(tensor) or tensor.layout is not torch.strided:
            continue
        counts[tensor.dtype, tuple(tensor.shape)] += 1
        if nodes < _MOST_NODES and node_of(tensor) is not None:
            operator, length = chain(tensor)
            nodes += length
            key = operator, tuple(tensor.shape)
            chains[key] = max(chains.get(key, 0), length)
        if tensor.dim():
            shape = tensor.dtype, tuple(tensor.shape[1:])
            lengths[shape] = max(lengths.get(shape, 0), tensor.shape[0])
    return TensorLook(step, chains, lengths, counts)


def grown_tensors(before: TensorLook, now: TensorLook, tensors: Iterable[Tensor]) -> list[GrownTensor]:
    """What gained half a node, or a row, a step: the sum that reaches furthest and the tensor that takes most."""
    steps = max(now.step - before.step, 1)
    sums: list[GrownTensor] = []
    longer: list[GrownTensor] = []
    nodes = 0
    for tensor in tensors:
        if not measurable(tensor) or tensor.layout is not torch.strided:
            continue
        if nodes < _MOST_NODES and node_of(tensor) is not None:
            operator, length = chain(tensor)
            nodes += length
            rate = (length - before.chains.get((operator, tuple(tensor.shape)), 0)) / steps
            if rate >= 0.5 and length >= 3 and (operator, tuple(tensor.shape)) in before.chains:
                sums.append(GrownTensor(tensor, length, rate, 0, operator))
        elif tensor.dim() and not tensor.requires_grad:
            key = tensor.dtype, tuple(tensor.shape[1:])
            rows = tensor.shape[0] - before.lengths.get(key, tensor.shape[0])
            size = rows * (tensor.untyped_storage().nbytes() // max(tensor.shape[0], 1)) // steps
            if rows >= steps and tensor.shape[0] == now.lengths[key] and size >= _FEW_BYTES:
                longer.append(GrownTensor(tensor, tensor.shape[0], rows / steps, size, None))
    best = [max(sums, key=lambda g: g.steps)] if sums else []
    return best + ([max(longer, key=lambda g: g.size)] if longer else [])


def most_more(before: TensorLook, now: TensorLook, tensors: Iterable[Tensor]) -> GrownTensor | None:
    """One of the tensors of the shape of which more were added than of any other, by memory; None where nothing was."""
    steps = max(now.step - before.step, 1)
    found: GrownTensor | None = None
    for tensor in tensors:  # the newest of a shape comes last
        if not measurable(tensor) or tensor.layout is not torch.strided:
            continue
        key = tensor.dtype, tuple(tensor.shape)
        rate = (now.counts[key] - before.counts.get(key, 0)) / steps
        size = round(rate * tensor.untyped_storage().nbytes())
        if rate >= 0.5 and size >= _FEW_BYTES and (found is None or size >= found.size):
            found = GrownTensor(tensor, now.counts[key], rate, size, None)
    return found


def chain(tensor: Tensor) -> tuple[str, int]:
    """(operator, nodes of the same operator in a row) behind a tensor: a sum adds to a sum, a moving average weighs one."""
    node: Any = tensor.grad_fn
    operator = node.name()
    nodes, seen, length = [node], {node}, 0
    while nodes and length < _LONGEST_CHAIN:
        length += 1
        ahead = {n: None for node in nodes for n in _behind(node, operator) if n not in seen}
        nodes = list(ahead)[:_MOST_BRANCHES]
        seen.update(nodes)
    return operator.removesuffix("0").removesuffix("Backward"), length


def _behind(node: Any, operator: str, hops: int = 2) -> Iterator[Any]:
    """Nodes of this operator whose result enters a node, as it is or in a weighted sum."""
    for before, _ in node.next_functions:
        if before is None:
            continue
        name = before.name()
        if name == operator:
            yield before
        elif hops and name in _WEIGHTED:
            yield from _behind(before, operator, hops - 1)

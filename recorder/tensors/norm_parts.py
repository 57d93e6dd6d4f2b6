"""What this rank's gradients add to a norm over ranks: the ranks are joined when the run is read, never in the training."""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from torch import Tensor

from ..script.wrappers import layout_of, local
from .device import Late, join_when_ready
from .moments import PLAIN

Norm = float | Late | None

PLAIN_OR_NONE = frozenset((*PLAIN, type(None)))


class Share(NamedTuple):
    """The ranks over which a part is to be joined."""

    ranks: tuple[int, ...]
    summands: bool = False
    """Whether the ranks hold summands of one tensor: the norm of their sum does not follow from theirs."""


class Parted(NamedTuple):
    """A norm of this rank's own parts, and these apart; none where nothing is sharded."""

    norm: Norm
    parts: dict[Share, Norm]


def share_of(x: Tensor, rank: int) -> Share:
    """How a tensor is joined over ranks; a plain one, and a replicated one, is whole."""
    layout = layout_of(x)
    return Share((rank,)) if layout is None else Share(layout.shard_ranks, layout.partial)


def shares_of(tensors: Iterable[Tensor | None], rank: int) -> list[Share | None]:
    """The same for each of many; empty where all are plain."""
    given = list(tensors)
    if PLAIN_OR_NONE.issuperset(map(type, given)):
        return []
    return [None if x is None else share_of(x, rank) for x in given]


def norm_in_parts(
    gradients: Sequence[Tensor | None],
    shares: Sequence[Share | None],
    norm_of: Callable[[Share | None, list[Tensor]], Norm],
) -> Parted:
    """Norm of gradients by what they are joined over; ``shares`` as of ``shares_of``."""
    if not shares:
        return Parted(norm_of(None, [g for g in gradients if g is not None]), {})
    by_share: dict[Share, list[Tensor]] = {}
    for gradient, share in zip(gradients, shares, strict=True):
        if gradient is not None and share is not None:
            by_share.setdefault(share, []).append(local(gradient))
    return joined({share: norm_of(share, members) for share, members in by_share.items()})


def joined(parts: dict[Share, Norm]) -> Parted:
    """What parts make together."""
    known = [norm for norm in parts.values() if norm is not None]
    return Parted(join_when_ready(known, _join) if known else None, parts)


def _join(norms: list[float]) -> float:
    return sum(n * n for n in norms) ** 0.5

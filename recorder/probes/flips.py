"""A sample whose image and target are mirrored by different draws, or of which one alone is.

Samples are read several times with other random numbers. An image and its target that belong together are mirrored in the same
readings: what is seen once in one and not in the other shows two draws, or a mirrored image that is thrown away.
"""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import IterableDataset

from ...schemas.files.probe_report import ProbeResult
from .child_process import NoAnswerError, in_a_child
from .read_again import as_tensors, only_torchs, set_seeds
from .stage import tensors_of
from .trial import result, untried

NAME = "flips-apart"

_SAMPLES = 8
_READINGS = 6
"""Of each sample: two draws of one half are alike in all of 40 readings once in 10^12 times."""
_SECONDS = 3.0
_SMALLEST = 8
"""Pixels on a side from which an image is told from its mirror image. Convention of this probe."""
_MAP = 4
"""The same for maps of exact values."""
_CHANNELS = 4
_LIKE = 0.8
_UNLIKE = 0.3
"""Correlation from which two images are one, with noise and brightness of their own, and how much less the other way round has
to be. Convention of this probe."""
_NUMBERS = 64
"""Of a target that is made of coordinates, at most."""
_ROUNDING = 1e-4
"""Share by which sums of coordinates in float32 may differ."""
_APART = 3
"""Readings of two samples or more in which one of both is mirrored. Arithmetic: one is enough; three leave no doubt."""

_SIDES = {"left-right": -1, "top-bottom": -2}


@dataclass(slots=True)
class _Pair:
    """An image and one target of its samples along one axis."""

    states: Counter[tuple[str, str]] = field(default_factory=Counter[tuple[str, str]])
    samples: set[int] = field(default_factory=set[int])
    sums: list[float] = field(default_factory=list[float])

    def note(self, sample: int, image: str, target: str) -> None:
        self.states[image, target] += 1
        if image != target:
            self.samples.add(sample)

    @property
    def apart(self) -> int:
        """Readings in which one of both was mirrored."""
        return self.states["same", "mirrored"] + self.states["mirrored", "same"]

    @property
    def mirrored(self) -> int:
        """Readings with a mirrored target; 0 where coordinates were not mirrored at one line."""
        scale = max((abs(s) for s in self.sums), default=0.0)
        if self.sums and max(self.sums) - min(self.sums) > _ROUNDING * scale:
            return 0
        return self.states["same", "mirrored"] + self.states["mirrored", "mirrored"]


def judge(dataset: Any) -> ProbeResult | None:
    """Read samples several times; None where torch's own code reads them, or nothing is mirrored."""
    if isinstance(dataset, IterableDataset) or only_torchs(dataset):
        return None
    try:
        found = in_a_child(lambda: _look(dataset), _SECONDS, dataset)
    except NoAnswerError as e:
        return untried(NAME, "reading-failed", error=str(e))
    code = found.pop("code")
    if code is None:
        return None
    return result(NAME, "doubtful" if code == "flipped-apart" else "passed", code, **found)


def _look(dataset: Any) -> dict[str, Any]:
    pairs: dict[tuple[int, str], _Pair] = {}
    for i in range(min(_SAMPLES, len(dataset))):
        base: list[Tensor] | None = None
        for seed in range(_READINGS):
            set_seeds(1000 * i + seed)
            read = [t.detach().clone() for t in tensors_of(as_tensors(dataset[i]))]
            if base is None:
                base = read
            else:
                _compare(pairs, i, base, read)
    told = [(pair.apart, place, side, pair) for (place, side), pair in pairs.items() if pair.mirrored]
    if not told:
        return {"code": None}
    apart, place, side, pair = max(told, key=lambda t: t[0])
    if apart >= _APART and len(pair.samples) > 1:
        facts = {"apart": apart, "readings": sum(pair.states.values()), "field": place, "side": side}
        alone = not pair.states["mirrored", "mirrored"] and not pair.states["mirrored", "same"]
        return {"code": "flipped-apart", "alone": alone, **facts}
    return {"code": "flipped-together"} if not apart else {"code": None}


def _compare(pairs: dict[tuple[int, str], _Pair], sample: int, base: list[Tensor], read: list[Tensor]) -> None:
    """Note how the image and each target of a reading stand to those of the first one."""
    if [t.shape for t in base] != [t.shape for t in read]:
        return
    found = next(((i, seen) for i, t in enumerate(base) if (seen := _image(t)) is not None), None)
    if found is None:
        return
    place, first = found
    second = _image(read[place])
    seen = _of_images(first, second) if second is not None else None
    for side, axis in _SIDES.items():
        if seen not in {"same", side}:
            continue
        state = "same" if seen == "same" else "mirrored"
        for other, (a, b) in enumerate(zip(base, read, strict=True)):
            if other == place or (a.shape == base[place].shape and a.is_floating_point()):
                continue  # another view of the image, drawn on its own
            pair = pairs.setdefault((other, side), _Pair())
            if (mirrored := _of_maps(a, b, axis)) is not None:
                pair.note(sample, state, mirrored)
            elif (line := _of_coordinates(a, b, side)) is not None:
                pair.note(sample, state, "same" if line == [] else "mirrored")
                pair.sums += line


def _image(tensor: Tensor) -> Tensor | None:
    """An image as (…, height, width) in float64; None of anything else."""
    if tensor.is_complex() or tensor.dtype is torch.bool or tensor.dim() not in {2, 3}:
        return None
    if tensor.dim() == 3 and tensor.shape[0] > _CHANNELS:
        tensor = tensor.movedim(-1, 0)
    if tensor.dim() == 3 and tensor.shape[0] > _CHANNELS:
        return None
    return tensor.double() if min(tensor.shape[-2:]) >= _SMALLEST else None


def _of_images(first: Tensor, second: Tensor) -> str | None:
    """``same``, or the side along which it was mirrored; None of one that is nearly its own mirror image, or was changed more."""
    like = {side: _correlation(first.flip(axis), second) for side, axis in _SIDES.items()}
    like["same"] = _correlation(first, second)
    best, next_best = sorted(like, key=like.__getitem__, reverse=True)[:2]
    return best if like[best] >= _LIKE and like[best] - like[next_best] >= _UNLIKE else None


def _correlation(one: Tensor, other: Tensor) -> float:
    x, y = one.reshape(-1) - one.mean(), other.reshape(-1) - other.mean()
    size = float(x.norm() * y.norm())
    return float(x @ y) / size if size > 0 else 0.0


def _of_maps(first: Tensor, second: Tensor, axis: int) -> str | None:
    """Of masks and grids; None of others, and of ones that are their own mirror image."""
    if first.dim() not in {2, 3} or min(first.shape[-2:]) < _MAP or torch.equal(first, first.flip(axis)):
        return None
    return "same" if torch.equal(first, second) else "mirrored" if torch.equal(first.flip(axis), second) else None


def _of_coordinates(first: Tensor, second: Tensor, side: str) -> list[float] | None:
    """Sums of the coordinates that changed with what they were, or with what their opposite side was: one number where they were
    mirrored at a line. Empty: none along this side has changed. None: no coordinates, or they changed otherwise.

    x and y take turns, x first, as in centres, corners and sizes of torchvision's and most others' boxes."""
    if not first.is_floating_point() or first.dim() not in {1, 2} or not 2 <= first.numel() <= _NUMBERS:
        return None
    one, two = (t.double().reshape(-1, t.shape[-1]) for t in (first, second))
    if torch.equal(one.sort(-1).values, two.sort(-1).values) and not torch.equal(one, two):
        return None  # another class in its place, as where labels are drawn
    changed = (one != two).any(0).nonzero().reshape(-1).tolist()
    columns = [c for c in changed if c % 2 == (0 if side == "left-right" else 1)]
    if not columns:
        return []
    if len({c % 2 for c in changed}) == 2 and len(changed) == one.shape[1] == 2:
        return None  # a point that moves
    for order in (columns, columns[::-1]):
        sums = (one[:, columns] + two[:, order]).reshape(-1)
        if float(sums.max() - sums.min()) <= _ROUNDING * float(sums.abs().max()):
            return [float(sums.mean())]
    return None

"""What is in a batch beside its moments: labels, masks, and a hash of each sample."""

import math
from functools import lru_cache
from hashlib import blake2b
from typing import Any

import torch
from torch import Tensor

from ...schemas.files.step_values import Row
from . import native
from .device import join_when_ready, scalar_of
from .moments import FEW, LATE_DEVICES, Moments

_MOST_CLASSES = 1024
_MOST_ELEMENTS = 1 << 16
_MOST_ROWS = 4096
_ELEMENTS_OF_A_ROW = 64

_FACTORS = torch.tensor(
    [
        int.from_bytes(blake2b(bytes([i]), digest_size=8).digest(), "little", signed=True) | 1
        for i in range(_ELEMENTS_OF_A_ROW)
    ],
    dtype=torch.int64,
    device="cpu",
)
"""Odd numbers without any relation to each other: their products with the elements add up to a multilinear hash, the same in
every process."""

_LENGTH = 0x1C8E_9B2F_35D1
"""Another, small enough that its product with any number of elements fits 64 bits."""


def label_facts(tensor: Tensor, moments: Moments) -> Row:
    """``label_counts`` and ``entropy`` of an integer tensor with few classes; negative values (ignored ones) are left out."""
    if tensor.is_floating_point() or tensor.dtype is torch.bool or tensor.device.type in LATE_DEVICES:
        return {}
    if not tensor.numel() or tensor.numel() > _MOST_ELEMENTS or moments.max is None:
        return {}
    if moments.max >= _MOST_CLASSES or moments.max < 0:
        return {}
    flat = tensor.detach().reshape(-1)
    if flat.numel() <= FEW:
        kept = [value for value in flat.tolist() if value >= 0]
        counts = [0] * (int(moments.max) + 1)
        for value in kept:
            counts[value] += 1
    else:
        counts = torch.bincount(flat[flat >= 0] if moments.min is not None and moments.min < 0 else flat).tolist()
    total = sum(counts)
    entropy = -sum(c / total * math.log(c / total) for c in counts if c) if total else None
    return {"label_counts": counts, "entropy": entropy}


def misplaced(tensor: Tensor, moments: Moments, classes: int, ignore_index: Any) -> Row:
    """``ignored_count`` and ``out_of_range_count`` of targets of so many classes. None is either where all lie among the classes
    and the index to be ignored does not lie among them, as it does in nearly every batch."""
    has_index = isinstance(ignore_index, int)
    # what is still on its way from a device is not waited for
    low, high = (moments.min, moments.max) if type(moments) is Moments else (None, None)
    if (
        low is not None
        and high is not None
        and low >= 0
        and high < classes
        and not (has_index and low <= ignore_index <= high)
    ):
        return {"ignored_count": 0, "out_of_range_count": 0}
    numel = tensor.numel()
    kept = tensor != ignore_index if has_index else torch.ones_like(tensor, dtype=torch.bool)
    wrong = (((tensor < 0) | (tensor >= classes)) & kept).sum()
    return {
        "ignored_count": join_when_ready([scalar_of(kept.sum())], lambda valid: numel - int(valid[0]))
        if has_index
        else 0,
        "out_of_range_count": join_when_ready([scalar_of(wrong)], lambda count: int(count[0])),
    }


def mask_facts(tensor: Tensor, moments: Moments) -> Row:
    """``valid_fraction`` and ``min_row_valid`` of a tensor that holds only zeros and ones; elements between 0 and 1 whose
    sum of squares is their sum are all zero or one."""
    if (
        tensor.device.type in LATE_DEVICES or tensor.layout is not torch.strided
    ):  # an adjacency matrix of zeros and ones
        return {}
    if tensor.dim() < 2 or tensor.numel() > 1 << 20 or not moments.numel:
        return {}
    if (
        moments.min is None
        or moments.max is None
        or moments.min < 0
        or moments.max != 1
        or moments.sum != moments.sum_sq
    ):
        return {}
    fewest = int(tensor.detach().sum(-1).min())
    return {"valid_fraction": (moments.sum or 0.0) / moments.numel, "min_row_valid": fewest}


@lru_cache(maxsize=64)
def _places(numel: int) -> Tensor:
    """Which elements of a row are read: multiples of the golden ratio, where even steps would meet a few columns of an image."""
    places = sorted({int(numel * (0.6180339887498949 * (i + 1) % 1)) for i in range(_ELEMENTS_OF_A_ROW)})
    return torch.tensor(places, device="cpu")


def sample_fingerprints(tensor: Tensor) -> list[int] | None:
    """One hash for each row of a batch, from up to 64 elements all over it; None where that cannot be or costs too much."""
    if tensor.device.type in LATE_DEVICES or tensor.layout is not torch.strided or tensor.is_complex():
        return None
    count = tensor.shape[0] if tensor.dim() >= 2 else 0
    if not 0 < count <= _MOST_ROWS or tensor.numel() < 2 * count:
        return None
    columns = tensor.numel() // count
    places = _places(columns) if columns > _ELEMENTS_OF_A_ROW else None
    # elements that are zero add nothing: a sample and the same with zeros behind it differ by their length
    length = _LENGTH * (columns if places is None else len(places))
    library = native.library
    if library is not None and (hashes := library.fingerprints(tensor, places, _FACTORS, length)) is not None:
        return hashes
    rows = tensor.detach().reshape(count, -1)
    if places is not None:
        rows = rows.index_select(1, places)
    if rows.is_floating_point():
        rows = rows.to(torch.float32).contiguous().view(torch.int32)
    return torch.mv(rows.to(torch.int64), _FACTORS[: rows.shape[1]]).add_(length).tolist()

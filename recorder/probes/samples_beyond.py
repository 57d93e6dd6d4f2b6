"""A data set that holds many samples and says that it has a few: its length counts the lists that hold them.

Asked of a data set that fills no batch, and is as long as one of its containers whose parts are many times longer.
"""

from typing import Any

import torch
from torch.utils.data import IterableDataset

from ...schemas.files.probe_report import ProbeResult
from .child_process import NoAnswerError, in_a_child
from .read_again import as_tensors, only_torchs, set_seeds
from .stage import tensors_of
from .trial import result, untried

NAME = "samples-beyond"

_SECONDS = 3.0
_TIMES = 8
"""Times its length at which a data set still has samples. Arithmetic: a length that misses some is another fault."""


def judge(dataset: Any, batch_size: Any) -> ProbeResult | None:
    """Read samples beyond the length; None where that is no question."""
    if isinstance(dataset, IterableDataset) or only_torchs(dataset) or not isinstance(batch_size, int):
        return None
    try:
        size = len(dataset)
        if not 1 < size < batch_size or not _counts_parts(dataset, size):
            return None
        more = in_a_child(lambda: {"more": _more(dataset, size)}, _SECONDS, dataset)["more"]
    except NoAnswerError as e:
        return untried(NAME, "reading-failed", error=str(e))
    except TypeError:
        return None  # without a length
    return result(NAME, "doubtful", "samples-beyond", samples=size, batch=batch_size) if more else None


def _counts_parts(dataset: Any, size: int) -> bool:
    """Whether a container of the data set has as many parts as it says to have samples, and each part many more."""
    held = [
        v for v in getattr(dataset, "__dict__", {}).values() if isinstance(v, list | tuple | dict) and len(v) == size
    ]
    parts = [list(v.values()) if isinstance(v, dict) else list(v) for v in held]
    return any(all(hasattr(p, "__len__") and _length(p) >= _TIMES * size for p in each) for each in parts)


def _length(part: Any) -> int:
    try:
        return 0 if isinstance(part, str | bytes) else len(part)
    except TypeError:
        return 0  # of no dimension


def _more(dataset: Any, size: int) -> bool:
    """Whether each of several samples beyond the length is there, and like none within."""
    known = [_read(dataset, i) for i in range(size)]
    for i in range(size, _TIMES * size):
        try:
            sample = _read(dataset, i)
        except Exception:  # noqa: BLE001 — it ends as it says
            return False
        if any(_equal(sample, other) for other in known):
            return False  # it begins anew, or does not look at the index
        known.append(sample)
    return True


def _read(dataset: Any, index: int) -> list[torch.Tensor]:
    set_seeds(0)
    return [t.detach().clone() for t in tensors_of(as_tensors(dataset[index]))]


def _equal(one: list[torch.Tensor], other: list[torch.Tensor]) -> bool:
    return len(one) == len(other) and all(torch.equal(a, b) for a, b in zip(one, other, strict=True))

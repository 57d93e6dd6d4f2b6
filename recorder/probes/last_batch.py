"""A batch of a DataLoader with as many samples as its last one will have, and so as its collate function makes it."""

import functools
from collections.abc import Callable, Sized
from typing import Any, cast

from torch import Tensor
from torch.utils.data import BatchSampler, dataloader, default_collate

from ..session.patches import Patches


class LastBatch:
    """Shortens the next batch of an iterator: where this process reads the samples, fewer are read. Where workers do, which
    have read some ahead, a batch that torch's own collate function made is cut."""

    def __init__(self) -> None:
        self._most: int | None = None
        """Samples of the batch that is read now."""

    def install(self, patches: Patches) -> None:
        """Wrap what gives the numbers of the next batch."""
        patches.wrap(dataloader._BaseDataLoaderIter, "_next_index", self._numbers)

    def _numbers(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def numbers(iterator: Any) -> Any:
            found = original(iterator)
            return found[: self._most] if self._most is not None and isinstance(found, list) else found

        return numbers

    @staticmethod
    def can_shorten(iterator: Any) -> bool:
        """Whether the pass ends with a batch smaller than the others, and one as small can be made."""
        return _left_over(iterator)[0] > 0 and (_reads_here(iterator) or iterator._collate_fn is default_collate)

    def next_of(self, iterator: Any, following: Callable[[Any], Any]) -> Any:
        """The next batch of an iterator, shortened where it can be."""
        left, size = _left_over(iterator)
        if not self.can_shorten(iterator):
            return following(iterator)
        if not _reads_here(iterator):
            batch = following(iterator)
            shorter = _cut(batch, left, size)
            return batch if shorter is None else shorter
        self._most = left
        try:
            return following(iterator)
        finally:
            self._most = None


def _reads_here(iterator: Any) -> bool:
    return isinstance(iterator, dataloader._SingleProcessDataLoaderIter)


def _left_over(iterator: Any) -> tuple[int, int]:
    """Samples of the last batch, where it is smaller, else 0; and of the others."""
    batches = getattr(iterator, "_index_sampler", None)
    if not isinstance(batches, BatchSampler) or batches.drop_last or not isinstance(batches.sampler, Sized):
        return 0, 0
    return len(batches.sampler) % batches.batch_size, batches.batch_size


def _cut(batch: Any, left: int, size: int) -> Any:
    """A batch cut to its first samples; None where it holds anything but tensors with a row for each sample."""
    if isinstance(batch, Tensor):
        return batch[:left] if batch.dim() and batch.shape[0] == size else None
    if isinstance(batch, dict):
        parts = {key: _cut(value, left, size) for key, value in cast("dict[Any, Any]", batch).items()}
        return None if any(v is None for v in parts.values()) else parts
    if type(batch) in {list, tuple}:
        found = [_cut(value, left, size) for value in batch]
        return None if any(v is None for v in found) else type(batch)(found)
    return None

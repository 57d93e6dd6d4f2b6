"""Data sets that a script splits, and loaders that then read the whole of them: `DataLoader(train_part.dataset)`."""

import sys
from typing import Any

from torch.utils.data import BatchSampler, DataLoader, RandomSampler, SequentialSampler, Subset

from ..base.identity_map import IdentityMap
from ..loop.dataloaders import LoaderWatch
from ..script.frames import Place, script_frame
from ..session.patches import Patches
from ..session.session import Session
from ..session.watch import Watch

_MOST_SPLITS = 64
_MOST_TOLD = 16
_PARTS = 2


class _Split:
    """The parts of one data set."""

    def __init__(self, number: int, place: str) -> None:
        self.number, self.place = number, place
        self.parts = 0


class UnreadSplits(Watch):
    """Writes an event for each loader that reads a data set which the script has split, at its first pass.

    One says that the loader reads all of it, another that it reads a part.
    """

    name = "unread-splits"
    writes = ("events:whole-of-split", "events:part-of-split")
    uses = ("loader",)

    def __init__(self, session: Session, loaders: LoaderWatch) -> None:
        super().__init__(session)
        self._loaders = loaders
        self._splits: IdentityMap[Any, _Split] = IdentityMap()
        self._made = 0
        self._told: set[tuple[int, int | None]] = set()
        """(split, loader that reads all of it, or None for a part)."""

    def install(self, patches: Patches) -> None:
        """Be told of parts that are made, and of each pass over a loader."""
        patches.around(Subset, "__init__", after=self.guarded(self._part))
        patches.around(DataLoader, "__iter__", after=self.guarded(self._begins))

    def _part(self, _note: Any, _result: Any, part: Any, *_: Any, **__: Any) -> None:
        whole = part.dataset
        if not hasattr(whole, "__weakref__"):
            return  # a list of samples
        split = self._splits.get(whole)
        if split is None:
            frame = script_frame(sys._getframe(1))
            if frame is None or self._made >= _MOST_SPLITS:
                return
            self._made += 1
            split = self._splits[whole] = _Split(self._made, Place(frame.f_code, frame.f_lasti).words()[0])
        split.parts += 1

    def _begins(self, _note: Any, iterator: Any, loader: Any) -> None:
        place = self._loaders.place_of(iterator)
        if place is None:
            return
        data = loader.dataset
        split = self._splits.get(data)
        whole = split is not None and split.parts >= _PARTS and _reads_all(loader)
        if split is None:
            split = self._splits.get(data.dataset) if isinstance(data, Subset) else None
        if split is None:
            return
        told = (split.number, place[0] if whole else None)
        if told in self._told or (whole and len(self._told) >= _MOST_TOLD):  # that a part is read is always told
            return
        self._told.add(told)
        self.session.rows.event(
            "whole-of-split" if whole else "part-of-split",
            f"loader {place[0]} reads {'all' if whole else 'a part'} of what is split at {split.place}",
            detail={"loader_id": place[0], "split": split.number, "place": split.place},
        )


def _reads_all(loader: Any) -> bool:
    """Whether its samplers are those of torch that go through all of its data. A stranger's is not asked for its length: it may
    draw random numbers for that."""
    sampler, batches = loader.sampler, loader.batch_sampler
    if batches is not None and (type(batches) is not BatchSampler or batches.sampler is not sampler):
        return False
    return type(sampler) is SequentialSampler or (type(sampler) is RandomSampler and sampler._num_samples is None)

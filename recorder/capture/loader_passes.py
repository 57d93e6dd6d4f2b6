"""Where the pass over the DataLoader stands that feeds the training: what its sampler began with, and how many batches came."""

import weakref
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import dataloader

from ...schemas.files.snapshot import LoaderPlace
from ..session.patches import Patches
from ..session.watch import Part


class LoaderPasses:
    """Follows the iterators of DataLoaders with a sampler."""

    def __init__(self) -> None:
        self._passes: weakref.WeakKeyDictionary[Any, tuple[dict[str, Tensor], LoaderPlace]] = (
            weakref.WeakKeyDictionary()
        )
        self._latest: weakref.ref[Any] | None = None

    def install(self, part: Part, patches: Patches) -> None:
        """Be told of the first index of a pass and of every batch; guarded as a part of the recorder."""
        iterator = dataloader._BaseDataLoaderIter
        patches.around(iterator, "_next_index", before=part.guarded(self._sampled))
        patches.around(iterator, "_reset", before=part.guarded(lambda it, *_, **__: self._passes.pop(it, None)))
        handed_out = part.guarded(self._handed_out)
        patches.around(iterator, "__next__", after=lambda _note, _batch, it: handed_out(it))

    def latest(self) -> tuple[Any, dict[str, Tensor], LoaderPlace] | None:
        """The iterator that handed out the last batch for training, the random states its sampler began with, its place."""
        iterator = self._latest() if self._latest is not None else None
        found = self._passes.get(iterator) if iterator is not None else None
        return None if found is None else (iterator, *found)

    def _sampled(self, iterator: Any) -> None:
        if iterator not in self._passes:
            states = {"random/loader": torch.get_rng_state()}
            own = own_generator(iterator)
            if own is not None:
                states["random/sampler"] = own.get_state()
            self._passes[iterator] = states, LoaderPlace(drawn=0)

    def _handed_out(self, iterator: Any) -> None:
        found = self._passes.get(iterator)
        if found is not None:
            found[1].drawn += 1
            if torch.is_grad_enabled():
                self._latest = weakref.ref(iterator)


def own_generator(iterator: Any) -> torch.Generator | None:
    """The generator that a loader's sampler draws from, where it is not the process's."""
    sampler = getattr(iterator, "_index_sampler", None)
    found = getattr(getattr(sampler, "sampler", sampler), "generator", None)
    return found if isinstance(found, torch.Generator) else None

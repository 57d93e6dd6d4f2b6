"""Continue from a snapshot: `firstfault prove` starts the script again, and its second step takes the place of the snapshot's.

The script makes its models, optimizers and loaders and takes two steps, by which all of them are known. Then weights, states,
schedules and random generators are set to those of the snapshot. The sampler goes to its place, and steps are counted from
there. Where the snapshot does not fit the script, the script continues from its own start and says so.
"""

import os
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import torch
from torch import Tensor
from torch.utils.data import _DatasetKind, dataloader

from ...schemas.files.snapshot import ENV_REENTRY, META_KEY, REENTRY_STEPS, LoaderPlace, SnapshotMeta
from ..loop.optimizers import OptimizerWatch
from ..session.patches import Patches
from ..session.session import Session
from ..session.signals import Signals
from ..session.watch import Watch
from ..tensors.tensor_file import read_tensors
from .loader_passes import LoaderPasses, own_generator
from .training_state import UnfitError, model_tensors, put_back, set_random


class Reentry(Watch):
    """Puts a snapshot in, once, where the environment names one."""

    name = "reentry"
    writes = ("events:re-entered",)

    def __init__(self, session: Session, optimizers: OptimizerWatch, schedulers: Callable[[], list[Any]]) -> None:
        super().__init__(session)
        path = os.environ.pop(ENV_REENTRY, "")
        self.path = Path(path) if path else None
        self._optimizers = optimizers
        self._schedulers = schedulers
        self._passes = LoaderPasses()
        self._scalers: list[weakref.ref[Any]] = []
        self._fetchers: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()
        """Iterators with workers, which have read ahead of a place where they are not any more."""
        self._steps = 0

    def listen(self, signals: Signals) -> None:
        """Count the steps."""
        if self.path is not None:
            signals.step_ends.connect(self.name, self._step_ended)

    def install(self, patches: Patches) -> None:
        """Follow loaders and scalers."""
        if self.path is None:
            return
        self._passes.install(self, patches)
        found = self.guarded(lambda scaler: self._scalers.append(weakref.ref(scaler)))
        patches.around(torch.amp.GradScaler, "__init__", after=lambda _n, _r, made, *_, **__: found(made))

        def wrap(original: Callable[..., Any]) -> Callable[..., Any]:
            def next_data(iterator: Any) -> Any:
                fetcher = self._fetchers.get(iterator)
                return original(iterator) if fetcher is None else fetcher.fetch(iterator._next_index())

            return next_data

        patches.wrap(dataloader._MultiProcessingDataLoaderIter, "_next_data", wrap)

    def _step_ended(self) -> None:
        self._steps += 1
        if self._steps != REENTRY_STEPS or self.path is None:
            return
        session = self.session
        try:
            kept, metadata = read_tensors(self.path)
            meta = msgspec.json.decode(metadata[META_KEY], type=SnapshotMeta)
            optimizers = self._optimizers.alive()
            models = model_tensors(session.catalogue.roots, optimizers)
            scalers = [s for ref in self._scalers if (s := ref()) is not None]
            put_back(meta, kept, models, optimizers, self._schedulers(), scalers)
            if meta.loader is not None:
                self._go_to(meta.loader, kept)
            set_random(meta, kept)
        except (UnfitError, OSError, ValueError, KeyError, msgspec.MsgspecError) as e:
            session.rows.event("re-entered", f"the snapshot was not put in: {e}", detail={"why": str(e)})
            return
        self._optimizers.count_on_from(meta.step)
        session.rows.event("re-entered", f"the state after step {meta.step} was put in", detail={"step": meta.step})

    def _go_to(self, place: LoaderPlace, kept: dict[str, Tensor]) -> None:
        """Have the loader's sampler begin as it did in that pass, and leave out what was drawn of it."""
        latest = self._passes.latest()
        if latest is None or latest[0]._dataset_kind != _DatasetKind.Map:
            raise UnfitError("the script's batches come from another kind of loader")
        iterator = latest[0]
        torch.set_rng_state(kept["random/loader"])
        generator = own_generator(iterator)
        if generator is not None and "random/sampler" in kept:
            generator.set_state(kept["random/sampler"])
        iterator._sampler_iter = iter(iterator._index_sampler)
        for _ in range(place.drawn):
            next(iterator._sampler_iter, None)
        if isinstance(iterator, dataloader._MultiProcessingDataLoaderIter):
            self._fetchers[iterator] = _DatasetKind.create_fetcher(
                iterator._dataset_kind,
                iterator._dataset,
                iterator._auto_collation,
                iterator._collate_fn,
                iterator._drop_last,
            )

"""DataLoaders: which loader a batch came from, in which epoch, at which place, with which samples, and how long it took."""

import contextlib
import functools
import itertools
import operator
import weakref
from collections import deque
from collections.abc import Callable
from time import perf_counter_ns
from typing import Any

from torch import Tensor
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    DistributedSampler,
    IterableDataset,
    RandomSampler,
    SequentialSampler,
    Subset,
    SubsetRandomSampler,
    TensorDataset,
    WeightedRandomSampler,
    dataloader,
)

from ...schemas.files.step_values import Row
from ..session.patches import Patches
from ..session.session import Session
from ..session.watch import Part
from .batches import DataWatch
from .optimizers import OptimizerWatch

_MOST_INDICES = 4096
_COUNTABLE = {
    BatchSampler,
    DistributedSampler,
    RandomSampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
}


class _Pass:
    """How far a pass over a loader has come; its iterator may be gone."""

    __slots__ = ("ended", "left_after", "left_passes", "place")

    def __init__(self, before: "_Pass | None" = None) -> None:
        self.place = 0
        """Batches that it has handed out."""
        self.ended = False
        self.left_passes, self.left_after = 0, None
        """Passes before it, in a row, that the script left before their end after this many batches."""
        if before is not None and not before.ended:
            self.left_passes = before.left_passes + 1 if before.place == before.left_after else 1
            self.left_after: int | None = before.place


class _Iteration:
    """An iterator of a loader, in its pass."""

    __slots__ = ("epoch", "indices", "loader_id", "now", "of_loader")

    def __init__(self) -> None:
        self.loader_id: int | None = None
        self.epoch = 0
        self.now = _Pass()
        self.of_loader: Row = {}
        """Columns of `batches` that are the same for all of them."""
        self.indices: deque[Any] = deque()
        """What the sampler has handed out and the script has not had yet: workers run ahead."""


class LoaderWatch(Part):
    """Tells DataWatch of every batch that a DataLoader hands out."""

    name = "loader"
    writes = ("steps.data_wait_ns",)

    def __init__(self, session: Session, data: DataWatch, optimizers: OptimizerWatch) -> None:
        super().__init__(session)
        self.data = data
        self.optimizers = optimizers
        self._iterations: weakref.WeakKeyDictionary[Any, _Iteration] = weakref.WeakKeyDictionary()
        self._loaders: dict[tuple[Any, ...], tuple[Callable[[], Any], int]] = {}
        """Identity of a loader → what that identity stands for while it lives, and the loader's number."""
        self._count = 0
        self._datasets: dict[int, tuple[Callable[[], Any], int]] = {}
        self._next_dataset = itertools.count()
        """Identity of a data set behind subsets → whether it lives, and its number."""
        self._epochs: dict[int, int] = {}
        self._passes: dict[int, _Pass] = {}
        """Loader → its last pass."""

    def install(self, patches: Patches) -> None:
        """Wrap the beginning of an iteration, the sampler, and the batch."""
        position, step_row, guarded = self.session.position, self.session.step_row, self.session.guard.guarded
        next_batch, loaded = guarded("data", self.optimizers.next_batch), guarded("data", self._loaded)
        ended = guarded("data", self._ended)
        iterator = dataloader._BaseDataLoaderIter
        patches.around(DataLoader, "__iter__", after=self.guarded(self._began))
        patches.around(iterator, "_next_index", after=self.guarded(self._sampled))
        patches.around(iterator, "_reset", before=self.guarded(self._again))

        def wrap_next(original: Callable[..., Any]) -> Callable[..., Any]:
            @functools.wraps(original)
            def next_(self: Any) -> Any:
                start = perf_counter_ns()
                position.loading = True
                try:
                    batch = original(self)
                except StopIteration:
                    ended(self)
                    raise
                finally:
                    position.loading = False
                waited = perf_counter_ns() - start
                step_row.clock["data"] += waited
                next_batch()
                loaded(self, batch, waited)
                return batch

            return next_

        patches.wrap(iterator, "__next__", wrap_next)

    def place_of(self, iterator: Any) -> tuple[int, int] | None:
        """Number of the loader that an iterator belongs to, and of its pass over it; None where it was not seen to begin."""
        found = self._iterations.get(iterator)
        return None if found is None or found.loader_id is None else (found.loader_id, found.epoch)

    def _of(self, iterator: Any) -> _Iteration:
        found = self._iterations.get(iterator)
        if found is None:
            found = self._iterations[iterator] = _Iteration()
        return found

    def _began(self, _note: Any, iterator: Any, loader: Any) -> None:
        facts = {"loader_batches": _length(loader), "workers": int(loader.num_workers), **_reach(loader)}
        self._begin(iterator, loader.dataset, facts)

    def _begin(self, iterator: Any, dataset: Any, facts: Row) -> None:
        iteration = self._of(iterator)
        id_ = iteration.loader_id = self._number(dataset)
        iteration.epoch = self._epochs.get(id_, 0)
        iteration.now = self._passes[id_] = _Pass(self._passes.get(id_))
        iteration.of_loader = {
            "left_passes": iteration.now.left_passes,
            "left_after": iteration.now.left_after,
            "dataset_id": self._dataset_number(dataset),
            **facts,
        }
        self._epochs[id_] = iteration.epoch + 1

    def _ended(self, iterator: Any) -> None:
        self._of(iterator).now.ended = True

    def _number(self, dataset: Any) -> int:
        key, alive = _identity(dataset)
        known = self._loaders.get(key)
        if known is None or known[0]() is None:
            known = self._loaders[key] = alive, self.session.attempt.first_loader + self._count
            self._count += 1
        return known[1]

    def _dataset_number(self, dataset: Any) -> int:
        while isinstance(dataset, Subset):
            dataset = dataset.dataset
        known = self._datasets.get(id(dataset))
        if known is None or known[0]() is None:
            known = self._datasets[id(dataset)] = _reference(dataset), next(self._next_dataset)
        return known[1]

    def _again(self, iterator: Any, *_: Any, **__: Any) -> None:
        """Persistent workers begin a new pass; what the last one had left over is void."""
        self._of(iterator).indices.clear()

    def _sampled(self, _note: Any, index: Any, iterator: Any) -> None:
        self._of(iterator).indices.append(index)

    def _loaded(self, iterator: Any, batch: Any, waited: int) -> None:
        iteration = self._of(iterator)
        if iteration.loader_id is None:  # made without a loader's __iter__, as fastai does
            self._begin(iterator, iterator._dataset, {"loader_batches": None, "workers": int(iterator._num_workers)})
        index = iteration.indices.popleft() if iteration.indices else None
        if self.session.position.unwatched:
            iteration.now.place += 1
            return
        origin: Row = {
            "loader_id": iteration.loader_id,
            "epoch": iteration.epoch,
            "batch_index": iteration.now.place,
            "wait_ns": waited,
            "sample_indices": _numbers(index),
            **iteration.of_loader,
        }
        iteration.now.place += 1
        self.data.loaded(batch, origin)


def _identity(dataset: Any) -> tuple[tuple[Any, ...], Callable[[], Any]]:
    """What makes two loaders the same (a loader made again for each epoch over the same data counts as one), and what tells
    whether that still lives: None from it means that the address has been given to other data."""
    if isinstance(dataset, TensorDataset) and dataset.tensors:
        first = dataset.tensors[0]
        # a slice is a new object in each epoch, what it is a view of is not
        return ("tensors", first.data_ptr(), first.shape), _reference(first if first._base is None else first._base)
    return (type(dataset).__qualname__, id(dataset)), _reference(dataset)


def _reference(thing: Any) -> Callable[[], Any]:
    """A weak reference; a list or a dict has none, and is taken to live on."""
    try:
        return weakref.ref(thing)
    except TypeError:
        return lambda: True


def _length(loader: Any) -> int | None:
    """Batches of one pass; None where a sampler is not one of torch's own: to ask a stranger's for its length may draw random
    numbers, and so change the training. A stream's is known where the script itself has asked for it."""
    if isinstance(loader.dataset, IterableDataset):
        samples = loader._IterableDataset_len_called
        if samples is None or loader.num_workers or not loader.batch_size:
            return None
        return (samples if loader.drop_last else samples + loader.batch_size - 1) // loader.batch_size
    sampler = loader._index_sampler
    inner = sampler.sampler if type(sampler) is BatchSampler else sampler
    return len(sampler) if type(sampler) in _COUNTABLE and type(inner) in _COUNTABLE else None


def _reach(loader: Any) -> Row:
    """What the sampler can draw of the data set; empty where either is no class of torch or has no length: see ``_length``."""
    outer = loader._index_sampler
    sampler: Any = outer.sampler if type(outer) is BatchSampler else outer
    if type(sampler) not in _COUNTABLE or type(sampler) is BatchSampler:
        return {}
    if isinstance(sampler, WeightedRandomSampler):
        reach = len(sampler.weights)
    elif isinstance(sampler, SubsetRandomSampler):
        reach = len(sampler.indices)
    else:
        source: Any = sampler.dataset if isinstance(sampler, DistributedSampler) else sampler.data_source
        reach = len(source)
    found: Row = {"sampler": type(sampler).__name__, "sampler_reach": reach}
    with contextlib.suppress(Exception):  # a data set needs no length where its sampler knows the samples
        found["dataset_length"] = len(loader.dataset)
    return found


def _numbers(index: Any) -> list[int] | None:
    """Indices of one batch as the sampler gave them; None where they are no numbers or too many."""
    if isinstance(index, int):
        return [index]
    if isinstance(index, Tensor):
        index = index.tolist() if index.dim() == 1 else None
    if not isinstance(index, (list, tuple)) or len(index) > _MOST_INDICES:
        return None
    try:  # indices drawn by randperm are tensors, those of NumPy are its integers
        return [operator.index(i) for i in index]
    except TypeError:
        return None

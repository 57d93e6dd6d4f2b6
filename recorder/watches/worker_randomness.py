"""Whether workers of a DataLoader draw the same random numbers: states of generators before and after their first batch.

A worker is a copy of the process. torch seeds the global generators in it again, but not one that the dataset holds. The states
are read in the worker when its first batch is asked for and when it is sent: nothing is drawn, and no code of the script is
called. They come back through a file in memory that the worker has inherited.
"""

import fcntl
import hashlib
import json
import os
import random
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from inspect import signature
from time import time_ns
from typing import Any

import torch
from torch.utils.data import DataLoader
from torch.utils.data._utils import worker as torch_worker

from ...schemas import Phase
from ..loop.dataloaders import LoaderWatch
from ..session.patches import Patches
from ..session.session import Session
from ..session.signals import Signals
from ..session.watch import Watch

_MOST_PASSES = 4
"""Passes over one loader whose workers are looked at."""

_MOST_OBJECTS = 200
_MOST_ITEMS = 32
_MOST_GENERATORS = 4
_DEPTH = 4

_ARGUMENTS = ["dataset_kind", "dataset", "index_queue", "data_queue"]
"""The first ones of torch's function that is the life of a worker."""

Generators = list[tuple[str, Any]]


class WorkerRandomness(Watch):
    """Writes an event ``worker-randomness`` for each generator that a worker drew from for its first batch."""

    name = "worker-randomness"
    writes = ("events:worker-randomness",)
    uses = ("loader",)

    def __init__(self, session: Session, loaders: LoaderWatch) -> None:
        super().__init__(session)
        self._loaders = loaders
        self._file = -1
        self._worker_id = -1
        """Place of that argument of a worker's life."""
        self._read = 0
        self._begun = 0
        """Passes over loaders so far; a worker knows the number of its own from when it was forked."""
        self._places: dict[int, tuple[int, int, int]] = {}
        """Number of a pass → that of its loader, of its pass over it, and the step in which it began."""

    def listen(self, signals: Signals) -> None:
        """Take what workers have sent at the end at the latest."""
        signals.recording_ends.connect(self.name, self._collect)

    def install(self, patches: Patches) -> None:
        """Look at workers as they begin; not where torch's function or the system is another."""
        parameters = list(signature(torch_worker._worker_loop).parameters)
        if not hasattr(os, "memfd_create") or parameters[:4] != _ARGUMENTS or "worker_id" not in parameters:
            return
        self._worker_id = parameters.index("worker_id")
        self._file = file_of_workers()
        patches.later(self._close)
        patches.wrap(torch_worker, "_worker_loop", self._in_worker)
        patches.around(DataLoader, "__iter__", after=self.guarded(self._begins))

    def _close(self) -> None:
        os.close(self._file)
        self._file = -1

    def _begins(self, _note: Any, iterator: Any, loader: Any) -> None:
        if not loader.num_workers:
            return
        place = self._loaders.place_of(iterator)
        if place is not None:
            self._places[self._begun] = (*place, self.session.position.step)
        self._begun += 1
        self._collect()

    def _in_worker(self, original: Callable[..., Any]) -> Callable[..., Any]:
        # a process that is spawned finds torch's own function under this name
        def _worker_loop(*args: Any, **kwargs: Any) -> Any:
            with suppress(Exception):
                self._listen_to(*args[1:4], worker=args[self._worker_id])
            return original(*args, **kwargs)

        _worker_loop.__module__, _worker_loop.__qualname__ = original.__module__, original.__qualname__
        return _worker_loop

    def _listen_to(self, dataset: Any, asked: Any, sent: Any, *, worker: int) -> None:
        """Read the states when the first batch is asked for, and when it is sent. Queues get functions of their own for it."""
        before: list[tuple[str, Any, str]] = []
        size: list[int] = []

        def get(*args: Any, **kwargs: Any) -> Any:
            request = type(asked).get(asked, *args, **kwargs)
            with suppress(Exception):
                if isinstance(request, tuple):
                    del asked.get
                    size.append(len(request[1]) if isinstance(request[1], list) else 1)
                    before.extend((path, made, _state(made)) for path, made in generators_of(dataset))
            return request

        def put(item: Any, *args: Any, **kwargs: Any) -> Any:
            with suppress(Exception):
                del sent.put
                self._send(worker, size[0], before)
            return type(sent).put(sent, item, *args, **kwargs)

        asked.get, sent.put = get, put

    def _send(self, worker: int, size: int, before: list[tuple[str, Any, str]]) -> None:
        drawn = [(path, state, after) for path, made, state in before if (after := _state(made)) != state]
        for path, state, after in drawn[:_MOST_GENERATORS]:
            line = {"pass": self._begun, "worker": worker, "samples": size, "generator": path}
            line |= {"before": state, "after": after}
            os.write(self._file, json.dumps(line).encode() + b"\n")

    def _collect(self) -> None:
        """Write what has come from workers since the last time."""
        if self._file < 0:
            return
        size = os.fstat(self._file).st_size
        content = os.pread(self._file, size - self._read, self._read) if size > self._read else b""
        whole = content[: content.rfind(b"\n") + 1]
        self._read += len(whole)
        for line in whole.splitlines():
            fact = json.loads(line)
            place = self._places.get(fact.pop("pass"))
            if place is not None and place[1] < _MOST_PASSES:
                self.session.rows.add(
                    "events",
                    time_ns=time_ns(),
                    step=place[2],
                    phase=int(Phase.DATA),
                    event="worker-randomness",
                    message=f"worker {fact['worker']} drew from {fact['generator']}",
                    detail=json.dumps({"loader_id": place[0], "epoch": place[1], **fact}),
                )


def file_of_workers() -> int:
    """A file in memory that processes forked from this one inherit, and to which they can write at once.

    Linux does not lock the position of such a file: without O_APPEND a worker overwrites the line of another.
    """
    file = os.memfd_create("firstfault-workers")
    fcntl.fcntl(file, fcntl.F_SETFL, os.O_APPEND)
    return file


def generators_of(dataset: Any) -> Iterator[tuple[str, Any]]:
    """Generators of random numbers that a dataset, or what it holds, keeps as attributes; of its module; and the global ones."""
    numpy: Any = sys.modules.get("numpy")
    kinds: tuple[type, ...] = (random.Random, torch.Generator)
    if numpy is not None:
        kinds += (numpy.random.Generator, numpy.random.RandomState)
    seen: set[int] = set()
    todo: list[tuple[str, Any, int]] = [("dataset", dataset, 0)]
    module = sys.modules.get(type(dataset).__module__)
    todo += (
        [(name, value, _DEPTH) for name, value in vars(module).items() if isinstance(value, kinds)] if module else []
    )
    todo += [("random", getattr(random, "_inst", None), _DEPTH)]
    todo += [("numpy.random", numpy.random.mtrand._rand, _DEPTH)] if numpy is not None else []
    for path, value, depth in todo:  # grows as it goes
        if id(value) in seen or len(seen) >= _MOST_OBJECTS:
            continue
        seen.add(id(value))
        if isinstance(value, kinds):
            yield path, value
        elif depth < _DEPTH:
            todo += [(f"{path}{name}", item, depth + 1) for name, item in _parts(value)]


def _parts(value: Any) -> list[tuple[str, Any]]:
    if type(value) in {list, tuple}:
        return [(f"[{i}]", item) for i, item in enumerate(value[:_MOST_ITEMS]) if hasattr(item, "__dict__")]
    if type(value) is dict:
        return [(f"[{key!r}]", item) for key, item in list(value.items())[:_MOST_ITEMS] if isinstance(key, str)]
    if isinstance(value, (type, torch.nn.Module)) or not hasattr(value, "__dict__"):
        return []
    return [(f".{name}", item) for name, item in list(vars(value).items())[:_MOST_ITEMS]]


def _state(made: Any) -> str:
    """Hash of a generator's state; reading it draws nothing."""
    if isinstance(made, random.Random):
        state: Any = made.getstate()
    elif isinstance(made, torch.Generator):
        state = made.get_state().numpy()
    else:
        state = made.get_state(legacy=False) if hasattr(made, "get_state") else made.bit_generator.state
    digest = hashlib.blake2b(digest_size=8)
    _feed(digest, state)
    return digest.hexdigest()


def _feed(digest: Any, state: Any) -> None:
    if isinstance(state, dict):
        for key, value in state.items():
            digest.update(str(key).encode())
            _feed(digest, value)
    else:
        digest.update(state.tobytes() if hasattr(state, "tobytes") else repr(state).encode())

"""Count the tensors that Python's garbage collector knows, now and then: how many there are of each shape.

A census walks over all objects of the process, some hundred thousand in a training: tens of milliseconds. It waits until all of
them together take no more than 0.2 % of the run's time, so a short run has none.
"""

import gc
from collections import defaultdict
from time import perf_counter_ns
from typing import Any

import torch
from torch import Tensor

from ..session.patches import Patches
from ..session.process_memory import HostMemory
from ..session.session import Session
from ..session.signals import Signals
from ..session.watch import Watch
from ..tensors.moments import measurable, node_of

_SHARE = 0.002
_GUESS_NS = 60_000_000
"""What the first census is taken to cost."""

_MOST_GROUPS = 16


class _Group:
    """Tensors of one shape and dtype."""

    __slots__ = ("size", "tensors", "with_graph")

    def __init__(self) -> None:
        self.tensors = 0
        self.with_graph = 0
        self.size = 0


class LiveTensors(Watch):
    """Fills table `live_tensors`, ``steps.live_tensors``, ``live_tensor_bytes``, ``rss_bytes`` and ``anonymous_bytes``."""

    name = "live-tensors"
    writes = (
        "live_tensors",
        "steps.live_tensors",
        "steps.live_tensor_bytes",
        "steps.rss_bytes",
        "steps.anonymous_bytes",
    )

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self._began = perf_counter_ns()
        self._spent = 0
        self._dearest = _GUESS_NS
        self._taken = 0
        self._least: dict[tuple[Any, ...], int] = {}
        self._memory: HostMemory | None = None

    def listen(self, signals: Signals) -> None:
        """Look at the process's memory at each step, and take a census now and then."""
        signals.row_ends.connect(self.name, self._take_census)

    def install(self, patches: Patches) -> None:
        """Nothing is put into torch; the file of the process's memory is closed at the end."""
        patches.later(self._close)

    def _close(self) -> None:
        memory, self._memory = self._memory, None
        if memory is not None:
            memory.close()

    def _take_census(self) -> None:
        session = self.session
        self._memory = self._memory or HostMemory()
        session.step_row.facts |= self._memory.now()
        began = perf_counter_ns()
        if self._spent + self._dearest > _SHARE * (began - self._began):
            return
        self._take()
        self._taken += 1
        took = perf_counter_ns() - began
        self._spent += took
        self._dearest = took if self._taken == 1 else max(took, self._dearest)

    def _take(self) -> None:
        session = self.session
        groups: dict[tuple[Any, ...], _Group] = defaultdict(_Group)
        storages: dict[int, int] = {}
        kinds = tensor_classes()
        for tensor in [o for o in gc.get_objects() if type(o) in kinds]:
            if not measurable(tensor) or tensor.layout is not torch.strided:
                continue
            storage = tensor.untyped_storage()
            size = 0 if storage._cdata in storages else storage.nbytes()
            storages[storage._cdata] = size or storages.get(storage._cdata, 0)
            group = groups[tuple(tensor.shape), tensor.dtype]
            group.tensors += 1
            group.size += size
            group.with_graph += node_of(tensor) is not None
        session.step_row.facts |= {
            "live_tensors": sum(g.tensors for g in groups.values()),
            "live_tensor_bytes": sum(storages.values()),
        }
        for key, group in groups.items():
            self._least[key] = min(self._least.get(key, 0 if self._taken else group.tensors), group.tensors)
        grown = sorted(groups, key=lambda k: (groups[k].tensors - self._least[k], groups[k].tensors), reverse=True)
        for shape, dtype in grown[:_MOST_GROUPS]:
            group = groups[shape, dtype]
            session.rows.add(
                "live_tensors",
                shape=list(shape),
                dtype=str(dtype).removeprefix("torch."),
                tensors=group.tensors,
                with_graph=group.with_graph,
                bytes=group.size,
            )


def tensor_classes() -> set[type]:
    """Tensor and all that is made from it."""
    found: set[type] = set()
    todo: list[type] = [Tensor]
    while todo:
        kind = todo.pop()
        if kind not in found:
            found.add(kind)
            todo += kind.__subclasses__()
    return found

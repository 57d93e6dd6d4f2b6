"""A ring of snapshots: the state of a training after a recent good step, so that `firstfault prove` need not begin at the start.

State is copied between two steps and written by a thread, both together for at most ``_SHARE`` of the time. A run in its first
half minute needs none: it is run again from the start. Later ones follow each other the more slowly the longer the run; where
the room is used up, the one goes that is missed least, never the newest two.
"""

import threading
import weakref
from collections.abc import Callable
from pathlib import Path
from shutil import disk_usage
from time import perf_counter_ns, thread_time_ns, time_ns
from typing import Any

import msgspec
import torch
from torch import Tensor

from ...schemas.files.snapshot import META_KEY, SnapshotMeta, snapshot_path, snapshots
from ..base.options import snapshot_plan
from ..session.patches import Patches
from ..session.session import Session
from ..session.signals import Signals
from ..session.watch import Watch
from ..tensors.tensor_file import write_tensors
from .loader_passes import LoaderPasses
from .training_state import UnfitError, describe, model_tensors, optimizer_tensors

_SHARE = 0.003
"""Of the time, for copying and writing: a tenth of the budget that the recorder has by default."""

_FIRST_S = 30.0
"""Seconds of training that are as soon run again as read back."""

_APART = 0.02
"""Of the time since the start, between two snapshots: a re-run from the newest one takes that share of the night."""

_ROOM = 512 * 1024 * 1024
"""Bytes of all snapshots, where the user named none; at most ``_FREE`` of what is free."""

_FREE = 0.05

_WAIT_S = 10.0
"""For a snapshot that is being written when the script ends."""


class Snapshots(Watch):
    """Writes RUN/snapshots/."""

    name = "snapshots"
    writes = ("events:snapshots",)

    def __init__(
        self,
        session: Session,
        optimizers: Callable[[], list[torch.optim.Optimizer]],
        schedulers: Callable[[], list[Any]],
    ) -> None:
        super().__init__(session)
        self.plan = snapshot_plan(session.options.snapshots)
        self._optimizers = optimizers
        self._schedulers = schedulers
        self._passes = LoaderPasses()
        self._scalers: list[weakref.ref[Any]] = []
        self._off = self.plan.kind == "off"
        self._room: int | None = None
        self._began = 0
        self._last = 0.0
        """Seconds from the beginning to the newest snapshot."""
        self._took = 0.0
        """Seconds that its copy took, and then its writing."""
        self._writer: threading.Thread | None = None
        """That of the newest, until its time is accounted for."""
        self._written_ns = 0
        """Processor time that it took."""
        self._trouble = ""
        """What the writing thread met."""

    def listen(self, signals: Signals) -> None:
        """Look between steps."""
        if not self._off:
            signals.step_ends.connect(self.name, self._step_ended)
            signals.recording_ends.connect(self.name, self._wait)

    def install(self, patches: Patches) -> None:
        """Follow loaders and scalers."""
        if not self._off:
            self._passes.install(self, patches)
            found = self.guarded(lambda scaler: self._scalers.append(weakref.ref(scaler)))
            patches.around(torch.amp.GradScaler, "__init__", after=lambda _n, _r, made, *_, **__: found(made))

    def _step_ended(self) -> None:
        if self._off:
            return
        now = perf_counter_ns()
        self._began = self._began or now
        seconds = (now - self._began) / 1e9
        self._account()
        if self._writer is None and self._due(seconds):
            try:
                self._take(seconds)
            except UnfitError as e:
                self._stop(str(e))
            self._last, self._took = seconds, (perf_counter_ns() - now) / 1e9
        if self._trouble:
            self._stop(self._trouble)

    def _account(self) -> None:
        """Say what writing took, once it is done."""
        if self._writer is not None and not self._writer.is_alive():
            self._writer = None
            self._took += self._written_ns / 1e9
            self.session.budget.wrote_snapshot(self._written_ns)

    def _due(self, seconds: float) -> bool:
        if self.plan.kind == "every":
            return (self.session.position.step + 1) % self.plan.every == 0
        since = seconds - self._last
        return seconds >= _FIRST_S and since >= max(_APART * seconds, self._took / _SHARE)

    def _take(self, seconds: float) -> None:
        session = self.session
        if not session.alone:
            raise UnfitError("several ranks train")
        optimizers = self._optimizers()
        tensors = model_tensors(session.catalogue.roots, optimizers) | optimizer_tensors(optimizers)
        size = sum(t.numel() * t.element_size() for t in tensors.values())
        if self._room is None:
            self._room = self._find_room()
        if 2 * size > self._room:
            raise UnfitError(f"two of {size} bytes do not fit into {self._room}")
        meta = SnapshotMeta(step=session.position.step, time_ns=time_ns(), seconds=seconds)
        scalers = [s for ref in self._scalers if (s := ref()) is not None]
        small = describe(meta, optimizers, self._schedulers(), scalers)
        latest = self._passes.latest()
        if latest is not None:
            small |= latest[1]
            meta.loader = msgspec.structs.replace(latest[2])
        copies = {name: t.detach().to("cpu", copy=True).contiguous() for name, t in tensors.items()}
        path = snapshot_path(session.run, meta.step)
        self._writer = threading.Thread(
            target=self._write, args=(path, copies | small, meta, self._room), name="firstfault-snapshot", daemon=True
        )
        self._writer.start()

    def _find_room(self) -> int:
        session = self.session
        room = self.plan.bytes or min(_ROOM, int(disk_usage(session.run).free * _FREE))
        limit = session.options.disk_limit_bytes
        return room if limit is None or self.plan.bytes else min(room, limit // 4)

    def _write(self, path: Path, tensors: dict[str, Tensor], meta: SnapshotMeta, room: int) -> None:
        """In a thread of its own. A state with a value that is not finite is no good one."""
        began = thread_time_ns()
        try:
            weights = [t for n, t in tensors.items() if n.startswith(("model/", "held/")) and t.is_floating_point()]
            if not all(bool(t.isfinite().all()) for t in weights):
                return
            path.parent.mkdir(exist_ok=True)
            write_tensors(path, tensors, {META_KEY: msgspec.json.encode(meta).decode()})
            make_room(path.parent.parent, room)
        except Exception as e:  # noqa: BLE001 — said by the thread that trains
            self._trouble = f"{type(e).__name__}: {e}"
        finally:
            self._written_ns = thread_time_ns() - began

    def _stop(self, why: str) -> None:
        self._off = True
        self.session.rows.event("snapshots", f"no snapshots are kept: {why}", detail={"why": why})

    def _wait(self) -> None:
        if self._writer is not None:
            self._writer.join(_WAIT_S)
            self._account()


def make_room(run: Path, room: int) -> None:
    """Remove snapshots until they fit: each time the one whose neighbours in time are closest, never the newest two."""
    sizes = {path: path.stat().st_size for _, path in snapshots(run)}
    while sum(sizes.values()) > room:
        steps = [(step, path) for step, path in snapshots(run) if path in sizes]
        if len(steps) < 3:
            return
        gaps = [
            (steps[i + 1][0] - (steps[i - 1][0] if i else 0)) / (steps[i + 1][0] + 1) for i in range(len(steps) - 2)
        ]
        _, gone = steps[min(range(len(gaps)), key=gaps.__getitem__)]
        gone.unlink(missing_ok=True)
        del sizes[gone]

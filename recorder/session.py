"""The recording session of one process: where it stands, the rows of the current step, and how they reach the journal.

Rows are collected without their step and get it when they are written, because only what ends an iteration tells which
iteration it was. Whatever fails in here is caught, said once, written as an event, and that part switches itself off:
the training never learns of it.
"""

import contextlib
import os
import socket
import sys
import threading
from collections import deque
from collections.abc import Callable
from pathlib import Path
from time import perf_counter_ns, time_ns
from typing import Any

import msgspec
import pyarrow as pa
import torch
from torch import Tensor
from torch.compiler import is_compiling
from torch.utils.data import get_worker_info

from ..schemas import TABLES, BreadcrumbWriter, Phase
from ..schemas.layout import JOURNAL, breadcrumb_path, rank_folder, unrecorded_path
from .attempt import EarlierNames, attempt_of, earlier_names
from .budget import Budget, Kind
from .catalogue import Catalogue, ModuleEntry
from .device_statistics import Late, Page, all_devices, either, now, on
from .journal import JournalWriter, segment_bytes
from .options import options_of
from .selection import chosen
from .statistics import UNKNOWN, Moments

_STATS_SCHEMA = TABLES["tensor_stats"].schema
_STRUCTS = {table.name: pa.struct(list(table.schema)) for table in TABLES.values()}
Row = dict[str, Any]
"""A row of any table but tensor_stats, which has too many for dictionaries. Rank and step are added when it is written."""

_MOST_BUFFERED = 20_000
_WRITE_ORDER = (*(name for name in TABLES if name not in {"steps", "system_samples"}), "steps")
"""The row of `steps` comes last: where it is readable, all of the step is."""


_FEW = 32
"""Rows up to which dictionaries become a batch sooner than columns do."""

_MOST_CALLS = 64
_MOST_WAITING = 4
"""Steps whose numbers may be on their way from a device; then the oldest is waited for."""


class _Bundle:
    """Rows of one write, and the pages that hold those of their numbers that are still on a device."""

    __slots__ = ("late_stats", "pages", "rows", "stats", "step")

    def __init__(self, step: int, pages: list[Page]) -> None:
        self.step = step
        self.pages = pages
        self.stats: list[tuple[Any, ...]] = []
        self.late_stats: list[tuple[int, Any]] = []
        self.rows: dict[str, list[Row]] = {}

    def ready(self) -> bool:
        """Whether everything has arrived."""
        return all(page.ready() for page in self.pages)


class Session:
    """One process's recording. Created when torch is imported; touches the disk when the first model trains."""

    def __init__(self, run: Path) -> None:  # noqa: PLR0915 — the state of a step, declared in one place
        self.run = run
        self.options = options_of(run)
        self.attempt = attempt_of(run)
        self.budget = Budget(self.options, self.attempt.first_step)
        self.catalogue = Catalogue(chosen=chosen(self.options), earlier=self._earlier_names)
        self.step = self.attempt.first_step
        self.microbatch = 0
        self.seq = 0
        self.phase = Phase.DATA
        self.thread = threading.get_ident()
        self.alive = True
        self.started = False
        self.recorder_ns = 0
        self.last_recorder_ns = 0
        self._entered = 0
        """When the hook in progress began, or when the last row of `steps` was made in it; 0 outside hooks."""
        self.in_backward = False
        self.gradient_lost = False
        """Whether a gradient that was measured in the backward in progress is not finite."""
        self.recalibrating = False
        """Whether batch norm's statistics are being set anew: forwards that are neither training nor evaluation."""
        self.saved_tensor_hooks_used = False
        """Whether the script uses saved-tensor hooks (activation checkpointing): saved tensors are then left alone."""
        self.on_start: Callable[[], None] = lambda: None
        self.on_unseen_models: Callable[[], None] = lambda: None
        """Told when models may have been found by their parameters, without a call of theirs."""
        self.on_model: list[Callable[[ModuleEntry], None]] = []
        """Told of every model that is found."""
        self.on_loss: Callable[[Tensor], None] = lambda _: None
        """Told of every loss on which backward is called."""
        self.on_call: Callable[..., None] | None = None
        """Told of every call that the script's own code makes of a model or of a module without weights, with gradients on."""
        self.on_loss_value: Callable[[Moments], None] = lambda _: None
        """Told the moments of every loss on which backward is called."""
        self.on_gradients: Callable[..., None] = lambda *_, **__: None
        """Told the joint norm of the gradients of a step before it is made or given up."""
        self.on_output: list[Callable[..., None]] = []
        """Told (entry, output, grad=) of what an outermost module call returned, also while nothing trains yet."""
        self.on_activation: list[Callable[[ModuleEntry, int, Tensor], None]] = []
        """Told (entry, tensor_id, tensor) of every new output in a training forward whose activations are measured."""
        self.module_of: Callable[[int], int | None] = lambda _: None
        self.clock: dict[str, int] = {"data": 0, "forward": 0, "backward": 0, "optimizer": 0}
        self.losses: list[float | Late | None] = []
        self.training: bool | None = None
        self.loss_scale: float | Late | None = None
        self.calls = ""
        self.zero_grads = 0
        self.facts: Row = {}
        """Columns of the next row of `steps`; empty again once it is written."""
        self.at_finish: list[Callable[[], None]] = []
        """Run before each row of `steps` is made: each adds its columns to ``facts``, its rows to tables. Guarded."""
        self.rank_facts: list[Callable[[], Row]] = []
        """Asked for columns of the row of `ranks` when recording begins."""
        self.at_close: list[Callable[[], None]] = []
        """Run when recording ends, before what is left is written. Guarded."""
        self._stats: list[tuple[Any, ...]] = []
        self._late_stats: list[tuple[int, Any]] = []
        """Rows of ``_stats`` whose moments have not arrived."""
        self._waiting: deque[_Bundle] = deque()
        self._running = True
        self._rows: dict[str, list[Row]] = {name: [] for name in _WRITE_ORDER}
        self._off: set[str] = set()
        self._journal: JournalWriter | None = None
        self._breadcrumb: BreadcrumbWriter | None = None
        self._statm: int | None = None
        self._page = os.sysconf("SC_PAGE_SIZE")
        self._last_flush = perf_counter_ns()
        self._journal_bytes = 0
        self._dropped = 0
        self.flushes = 0
        """How often the rows of a step were written; what was collected before the last time cannot be changed any more."""

    # -- life -----------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Claim this process's rank and open its files; called at the first sign of training."""
        if self.started or not self.alive:
            return
        if get_worker_info() is not None:
            self.alive = False  # a dataset may run a model of its own; that is not the training
            return
        self.started = True
        self.thread = threading.get_ident()
        rank, world_size = rank_and_world()
        folder = self.run / JOURNAL / rank_folder(rank)
        try:
            folder.parent.mkdir(parents=True, exist_ok=True)
            folder.mkdir()
        except FileExistsError:
            self.alive = False
            self._say_unrecorded(rank)
            return
        except OSError as e:
            self.alive = False
            warn("run-folder", f"{folder}: {e.strerror}; this process is not recorded")
            return
        self.catalogue.rank = rank
        self._journal = JournalWriter(
            self.run, rank, self.attempt.first_part, segment_bytes(self.options.disk_limit_bytes, max(world_size, 1))
        )
        self._breadcrumb = BreadcrumbWriter(breadcrumb_path(self.run, rank), os.getpid())
        self._statm = (
            os.open("/proc/self/statm", os.O_RDONLY | os.O_CLOEXEC) if Path("/proc/self/statm").exists() else None
        )
        devices = (
            [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
            if torch.cuda.is_initialized()
            else []
        )
        self.add(
            "ranks",
            world_size=world_size,
            pid=os.getpid(),
            hostname=socket.gethostname(),
            time_ns=time_ns(),
            torch_version=torch.__version__,
            devices=msgspec.json.encode(devices).decode(),
            threads=torch.get_num_threads(),
            seed=torch.initial_seed() & 0x7FFF_FFFF_FFFF_FFFF,
            **{column: value for facts in self.rank_facts for column, value in facts().items()},
        )
        if self.attempt.number > 1:
            self.event(
                "attempt",
                f"attempt {self.attempt.number} of the run begins with step {self.attempt.first_step}",
                detail={"attempt": self.attempt.number, "first_step": self.attempt.first_step},
            )
        self._last_flush = perf_counter_ns()
        self.write(("ranks", "events"))
        self.on_start()

    def _earlier_names(self) -> EarlierNames:
        return earlier_names(self.run, rank_and_world()[0]) if self.attempt.number > 1 else EarlierNames()

    def close(self) -> None:
        """Write what an unfinished step has left, then close the files."""
        if not self.alive:
            return
        if self._journal is not None:
            for last in self.at_close:
                last()
            if self._stats or self._rows["batches"] or self.losses:
                self.finish(optimizer_id=None, stepped=False, completed=False)
            self._running = False
            self._account(self.budget.account(max(self.step - 1, 0)))
            self.write(_WRITE_ORDER)
            self._journal.close()
        self.alive = False

    def _say_unrecorded(self, rank: int) -> None:
        warn("rank-taken", f"another process already records rank {rank} of {self.run}; this one is not recorded")
        path = unrecorded_path(self.run, rank, os.getpid())
        with contextlib.suppress(OSError):  # it has been said on the terminal
            path.parent.mkdir(exist_ok=True)
            path.touch()

    def abandon(self) -> None:
        """After a fork: the child must not write what belongs to its parent. Where that records nothing yet, such as a
        script that forks its trainers, the child records itself if it trains."""
        if not self.started:
            return
        self.alive = False
        self._journal = None
        self._breadcrumb = None

    # -- guarding ---------------------------------------------------------------------------------------------------------

    def guarded(self, part: str, hook: Callable[..., Any], kind: Kind | None = None) -> Callable[..., Any]:
        """A hook that never raises into the training, keeps account of its time, and stays off once it has failed.

        Where all that it does is measure one costly ``kind``, its time is that kind's price.
        """

        def call(*args: Any, **kwargs: Any) -> Any:
            if is_compiling() or not self.alive or part in self._off:
                return None  # torch.compile folds this away: no graph break
            began = perf_counter_ns()
            inside = self._entered  # a hook that runs within another is part of that one's time
            if not inside:
                self._entered = began
            try:
                return hook(*args, **kwargs)
            except Exception as e:  # noqa: BLE001 — a recorder that raises into a training is worse than none
                self.fault(part, e)
                return None
            finally:
                ended = perf_counter_ns()
                if not inside:
                    self.recorder_ns += ended - self._entered
                    self._entered = 0
                if kind is not None:
                    self.budget.spent(kind, ended - began)

        return call

    def fault(self, part: str, error: Exception) -> None:
        """Say once that a part of the recorder failed, and switch it off."""
        self._off.add(part)
        where = error.__traceback__
        while where is not None and where.tb_next is not None:
            where = where.tb_next
        line = f"{Path(where.tb_frame.f_code.co_filename).name}:{where.tb_lineno}" if where is not None else "?"
        warn(
            part,
            f"{type(error).__name__}: {error} (at {line}); this part of the recording is switched off, training goes on",
        )
        self.event(
            "recorder-fault",
            f"{part} switched itself off: {type(error).__name__}: {error}",
            detail={"part": part, "at": line},
        )

    # -- rows -------------------------------------------------------------------------------------------------------------

    def stat(
        self,
        tensor_id: int,
        phase: int,
        m: Moments,
        *,
        missing: bool = False,
        requires_grad: bool | None = None,
    ) -> int:
        """One row of tensor_stats; returns its seq."""
        seq = self.seq
        self.seq = seq + 1
        if tensor_id in self.catalogue.excluded:
            return seq
        if type(m) is Moments:
            self._stats.append((self.microbatch, seq, phase, tensor_id, *m, missing, requires_grad))
        else:  # still on its way from a device
            place = (self.microbatch, seq, phase, tensor_id)
            self._late_stats.append((len(self._stats), m))
            self._stats.append((*place, *UNKNOWN, missing, requires_grad))
        return seq

    def called(self, letter: str) -> None:
        """A call of the script, for `steps.calls`; cut where a closure or a long accumulation makes it useless."""
        if len(self.calls) < _MOST_CALLS:
            self.calls += letter

    def next_seq(self) -> int:
        """The next number in the order of capture."""
        self.seq += 1
        return self.seq - 1

    def add(self, table: str, **values: Any) -> Row:
        """A row of any other table; columns left out are null, but rank, step and microbatch are filled in.

        The row may be changed until the step is written: ``session.flushes`` tells.
        """
        values.setdefault("microbatch", self.microbatch)
        self._rows[table].append(values)
        return values

    def stat_index(self) -> int:
        """Place that the next row of tensor_stats will have in the buffer, for ``move_stat``."""
        return len(self._stats)

    def move_stat(self, index: int, phase: int) -> None:
        """A row still in the buffer turns out to belong to another phase."""
        if index < len(self._stats):
            row = self._stats[index]
            self._stats[index] = (*row[:2], phase, *row[3:])

    def spill(self) -> None:
        """Write what a long evaluation between two steps has collected, so that the buffer stays small."""
        if len(self._stats) > _MOST_BUFFERED:
            self.flushes += 1
            self.write(_WRITE_ORDER)

    def metric(
        self, name: str, value: "float | Late", step: int, source: str = "firstfault", logged_step: int | None = None
    ) -> None:
        """A row of `metrics`; written with the next step, or at the end."""
        self.add(
            "metrics", step=step, time_ns=time_ns(), name=name, value=value, source=source, logged_step=logged_step
        )

    def event(
        self, event: str, message: str, *, module_id: int | None = None, detail: dict[str, Any] | None = None
    ) -> None:
        """A row of `events`; written with the next step, or at the end."""
        self.add(
            "events",
            time_ns=time_ns(),
            step=self.step,
            phase=int(self.phase),
            event=event,
            module_id=module_id,
            message=message,
            detail=msgspec.json.encode(detail).decode() if detail else None,
        )

    def note(self, phase: Phase, module_id: int) -> None:
        """Leave the breadcrumb: where the process stands now."""
        self.phase = phase
        if self._breadcrumb is not None:
            self._breadcrumb.note(time_ns(), self.step, self.microbatch, phase, module_id)

    # -- steps --------------------------------------------------------------------------------------------------------------

    @property
    def pending(self) -> bool:
        """Whether a backward has run since the last row of `steps`."""
        return self.microbatch > 0

    def finish(
        self,
        *,
        optimizer_id: int | None,
        stepped: bool,
        completed: bool = True,
        skipped: bool = False,
        grad_norm: "float | Late | None" = None,
        carried: "float | Late | None" = None,
    ) -> None:
        """Write the rows collected so far as this step's, with the row of `steps` last."""
        for extra in self.at_finish:
            extra()
        now = perf_counter_ns()
        if self._entered:
            self.recorder_ns += now - self._entered
            self._entered = now
        self.add(
            "steps",
            **{
                "optimizer_id": optimizer_id,
                "time_ns": time_ns(),
                "completed": completed,
                "stepped": stepped,
                "skipped_by_scaler": skipped,
                "microbatches": self.microbatch,
                "loss": either([v for v in self.losses if v is not None], _mean),
                "grad_norm": grad_norm,
                "carried_grad_norm": carried,
                "loss_scale": self.loss_scale,
                "training": self.training,
                "eval_forwards": 0,
                "calls": self.calls,
                "zero_grads": self.zero_grads,
                "scheduler_steps": 0,
                "step_ns": now - self._last_flush,
                "data_wait_ns": self.clock["data"],
                "forward_ns": self.clock["forward"],
                "backward_ns": self.clock["backward"],
                "optimizer_ns": self.clock["optimizer"],
                "recorder_ns": self.recorder_ns,
                "journal_bytes": self._journal_bytes,
                "rss_bytes": self._resident_bytes(),
                "detail": self.budget.detail(),
                **_device_memory(),
                **self.facts,
            },
        )
        self.budget.row_ended(now - self._last_flush, self.recorder_ns)
        self.facts, self.calls, self.zero_grads = {}, "", 0
        self._last_flush = now
        self.clock = dict.fromkeys(self.clock, 0)
        self.losses = []
        self.microbatch = 0
        self.last_recorder_ns = self.recorder_ns
        self.recorder_ns = 0
        self.flushes += 1
        began = perf_counter_ns()
        self.write(_WRITE_ORDER)
        self.budget.wrote(perf_counter_ns() - began)

    def advance(self) -> None:
        """The iteration is over."""
        self._account(self.budget.step_ended(self.step))
        self.step += 1
        self.seq = 0
        self.microbatch = 0
        self.note(Phase.DATA, -1)

    def _account(self, rows: list[Row]) -> None:
        """What the recorder took and how it adapted."""
        time = time_ns()
        for row in rows:
            self.add("recorder_stats", time_ns=time, **row)

    def write(self, tables: tuple[str, ...]) -> None:
        """Append the collected rows of these tables to the journal."""
        if self._journal is None:
            return
        self._rows["modules"] += self.catalogue.take_module_rows()
        self._rows["tensors"] += self.catalogue.take_tensor_rows()
        whole = "tensor_stats" in tables
        bundle = _Bundle(self.step, [page for device in all_devices() for page in device.seal()] if whole else [])
        for name in tables:
            if name == "tensor_stats":
                bundle.stats, self._stats = self._stats, []
                bundle.late_stats, self._late_stats = self._late_stats, []
            elif rows := self._rows[name]:
                bundle.rows[name] = rows
                self._rows[name] = []
        self._waiting.append(bundle)
        while self._waiting and (self._waiting[0].ready() or len(self._waiting) > _MOST_WAITING or not self._running):
            self._append(self._waiting.popleft())

    def _append(self, bundle: "_Bundle") -> None:
        """Write rows whose values have all arrived, or wait for them."""
        for index, moments in bundle.late_stats:
            row = bundle.stats[index]
            bundle.stats[index] = (*row[:4], *now(moments), *row[12:])
        batches: dict[str, pa.RecordBatch] = {}
        for name in _WRITE_ORDER:
            if name == "tensor_stats":
                if bundle.stats:
                    batches[name] = self._stats_batch(bundle.step, bundle.stats)
            elif rows := bundle.rows.get(name):
                batches[name] = self._batch(name, bundle.step, rows, late=bool(bundle.pages))
        for page in bundle.pages:
            on(page.device).reuse(page)
        try:
            self._journal_bytes = self._journal.append(batches) if self._journal is not None else 0
        except OSError as e:
            self._dropped += 1
            if self._dropped == 1:
                warn("journal", f"{self.run}: {e.strerror}; rows are dropped and counted, training goes on")
            self.event(
                "rows-dropped",
                f"the journal did not take a step: {e.strerror}",
                detail={"steps_dropped": self._dropped},
            )

    def _stats_batch(self, step: int, rows: list[tuple[Any, ...]]) -> pa.RecordBatch:
        count = len(rows)
        if count <= _FEW:
            names = _STATS_SCHEMA.names[2:]
            described = [dict(zip(names, row, strict=True)) for row in rows]
            return self._batch("tensor_stats", step, described, late=False)
        columns = [[self.catalogue.rank] * count, [step] * count, *zip(*rows, strict=True)]
        return pa.RecordBatch.from_arrays(list(map(pa.array, columns, _STATS_SCHEMA.types)), schema=_STATS_SCHEMA)

    def _batch(self, name: str, step: int, rows: list[Row], *, late: bool) -> pa.RecordBatch:
        rank = self.catalogue.rank
        for row in rows:
            row.setdefault("rank", rank)
            row.setdefault("step", step)
            if late:
                for column, value in row.items():
                    row[column] = now(value)
        # in one call instead of one for each column; keys that the table does not have are passed over
        return pa.RecordBatch.from_struct_array(pa.array(rows, _STRUCTS[name]))

    def _resident_bytes(self) -> int | None:
        if self._statm is None:
            return None
        return int(os.pread(self._statm, 128, 0).split()[1]) * self._page


def _device_memory() -> Row:
    """Memory of the current CUDA device as the allocator counts it: no question to the device."""
    if not torch.cuda.is_initialized():
        return {}
    return {
        "cuda_allocated_bytes": torch.cuda.memory_allocated(),
        "cuda_reserved_bytes": torch.cuda.memory_reserved(),
        "cuda_peak_bytes": torch.cuda.max_memory_allocated(),
    }


def _mean(values: list[float]) -> float | None:
    return sum(values) / len(values) if values else None


def warn(slug: str, message: str) -> None:
    """One line on the script's stderr; the slug can be looked up in the documentation."""
    print(f"firstfault: [{slug}] {message}", file=sys.stderr, flush=True)  # noqa: T201 — the user's terminal is the only reader


def rank_and_world() -> tuple[int, int]:
    """Rank and world size: from torch.distributed where it is up, else from the launcher's environment, else 0 of 1."""
    dist = torch.distributed
    if dist.is_available() and dist.is_initialized():
        return dist.get_rank(), dist.get_world_size()
    try:
        return int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    except ValueError:
        return 0, 1

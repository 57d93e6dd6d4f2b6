"""The recording session of one process: where it stands, the rows of the current step, and how they reach the journal.

Rows are collected without their step and get it when they are written, because only what ends an iteration tells which
iteration it was. Whatever fails in here is caught, said once, written as an event, and that part switches itself off:
the training never learns of it.
"""

import os
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from time import perf_counter_ns, time_ns
from types import TracebackType
from typing import Any

from torch import Tensor
from torch.compiler import is_compiling
from torch.optim.optimizer import register_optimizer_step_post_hook
from torch.utils.data import get_worker_info

from ...schemas import BreadcrumbWriter, Phase
from ...schemas.files.json_text import json_text
from ...schemas.files.layout import JOURNAL, breadcrumb_path, rank_folder
from ...schemas.files.step_values import Row
from ..base.options import options_of
from ..base.process_notes import note_process
from ..base.secrets import Redactor
from ..base.selection import chosen
from ..base.terminal import warn
from ..script.signal_handlers import raised_by_signal_handler
from ..storage.attempt import EarlierNames, attempt_of, earlier_names
from ..storage.journal import JournalWriter, segment_bytes
from ..tensors.device import Late, either
from ..tensors.moments import UNKNOWN, Moments
from ..tensors.norm_parts import Norm, Share
from .budget import Budget, Kind
from .process_memory import device_memory
from .ranks import rank_and_world, rank_row, say_unrecorded
from .registry import Catalogue, ModuleEntry
from .row_checks import OF_MICROBATCHES, STRICT, RowError, check_row, unknown_columns
from .step_rows import WRITE_ORDER, StepRows

_MOST_BUFFERED = 20_000
_MOST_CALLS = 64

_MAY_BE_OVERRULED = frozenset(("stepped", "eval_forwards", "scheduler_steps"))
"""Columns of `steps` that this file fills in, and of which another part may know better."""


class Session:
    """One process's recording. Created when torch is imported; touches the disk when the first model trains."""

    def __init__(self, run: Path) -> None:  # noqa: PLR0915 — the state of a step, declared in one place
        self.run = run
        self.options = options_of(run)
        self.secrets = Redactor.of_this_process(keep=self.options.keep_secrets)
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
        self.unwatched = False
        """Whether nothing is measured and nothing noted of the step in progress: see loop/unwatched_steps.py."""
        self.alone = True
        """Whether this is the only rank."""
        self.evaluations = 0
        """Forwards without gradients of the last row of `steps`."""
        self._entered = 0
        """When the hook in progress began, or when the last row of `steps` was made in it; 0 outside hooks."""
        self.hook_began_ns = 0
        """When the outermost hook in progress, or the last one, began."""
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
        self.on_inner_model: Callable[[ModuleEntry], None] = lambda _: None
        """Told of the outermost module in flight when a model is found within its forward: it holds it in some way of its own."""
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
        self.step_of_failure: Callable[[TracebackType | None], int] = lambda _: self.step
        """To which step an exception belongs, by its traceback."""
        self.clock: dict[str, int] = {"data": 0, "forward": 0, "backward": 0, "optimizer": 0}
        self.losses: list[float | Late | None] = []
        self.training: bool | None = None
        self.loading = False
        """Whether a loader of torch is asked for its next batch."""
        self.loss_scale: float | Late | None = None
        self.calls = ""
        self.zero_grads = 0
        self.facts: Row = {}
        """Columns of the next row of `steps`; empty again once it is written."""
        self.norm_parts: dict[str, dict[Share, Norm]] = {}
        """Norm of the next row of `steps` → its parts, where some of the gradients are sharded."""
        self.at_finish: list[tuple[str, Callable[[], Any]]] = []
        """Part of the recorder, and what runs before each row of `steps` is made: it adds its columns to ``facts``, its rows to
        tables. Guarded where it is called, because a wrapper for each would cost as much as most of them."""
        self.at_advance: list[Callable[[], None]] = []
        """Run when an iteration is over, all its rows of `steps` are made, and ``step`` is still its number. Guarded."""
        self.mark: Callable[[], Any] | None = None
        """While a profiler window is open: makes a range that marks the recorder's own work in the trace."""
        self._open_mark: Any = None
        self.rank_facts: list[Callable[[], Row]] = []
        """Asked for columns of the row of `ranks` when recording begins."""
        self.at_close: list[Callable[[], None]] = []
        """Run when recording ends, before what is left is written. Guarded."""
        self._running = True
        self._rows = StepRows(self.catalogue)
        self._off: set[str] = set()
        self.faults = 0
        """Parts of the recorder that switched themselves off."""
        self._breadcrumb: BreadcrumbWriter | None = None
        self._last_flush = perf_counter_ns()
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
            say_unrecorded(self.run, rank)
            return
        except OSError as e:
            self.alive = False
            warn("run-folder", f"{folder}: {e.strerror}; this process is not recorded")
            return
        self.catalogue.rank = rank
        self.alone = world_size <= 1
        self._rows.journal = JournalWriter(
            self.run, rank, self.attempt.first_part, segment_bytes(self.options.disk_limit_bytes, max(world_size, 1))
        )
        self._breadcrumb = BreadcrumbWriter(breadcrumb_path(self.run, rank), os.getpid())
        self.add(
            "ranks",
            **rank_row(world_size),
            **{column: value for facts in self.rank_facts for column, value in facts().items()},
        )
        if self.attempt.number > 1:
            self.event(
                "attempt",
                f"attempt {self.attempt.number} of the run begins with step {self.attempt.first_step}",
                detail={"attempt": self.attempt.number, "first_step": self.attempt.first_step},
            )
        self._last_flush = perf_counter_ns()
        self.write(("ranks", "events", "collectives"))
        self.on_start()

    def _earlier_names(self) -> EarlierNames:
        return earlier_names(self.run, rank_and_world()[0]) if self.attempt.number > 1 else EarlierNames()

    def close(self) -> None:
        """Write what an unfinished step has left, then close the files."""
        if not self.alive:
            return
        if self._rows.journal is not None:
            for last in self.at_close:
                last()
            if self._rows.stats or self._rows.of["batches"] or self.losses:
                self.finish(optimizer_id=None, stepped=False, completed=False)
            self._running = False
            self._account(self.budget.account(max(self.step - 1, 0)))
            self.write(WRITE_ORDER)
            self._rows.journal.close()
        self.alive = False

    def abandon(self) -> None:
        """After a fork: the child must not write what belongs to its parent, and says so if it trains all the same. Where
        the parent records nothing yet, such as a script that forks its trainers, the child records itself."""
        if not self.started or not self.alive:
            return
        self.alive = False
        self._rows.journal = None
        self._breadcrumb = None
        unsaid = [True]

        def say(*_: Any) -> None:
            if unsaid:
                unsaid.clear()
                say_unrecorded(self.run, rank_and_world()[0])

        register_optimizer_step_post_hook(say)

    # -- guarding ---------------------------------------------------------------------------------------------------------

    def guarded(self, part: str, hook: Callable[..., Any], kind: Kind | None = None) -> Callable[..., Any]:
        """A hook that never raises into the training, keeps account of its time, and stays off once it has failed.

        Where all that it does is measure one costly ``kind``, its time is that kind's price.
        """

        def call(*args: Any, **kwargs: Any) -> Any:
            if is_compiling() or not self.alive or part in self._off:
                return None  # torch.compile folds this away: no graph break
            if self._entered and kind is None:  # within another hook, whose time this is
                try:
                    return hook(*args, **kwargs)
                except Exception as e:
                    if raised_by_signal_handler(e):
                        raise
                    self.fault(part, e)
                    return None
            began = perf_counter_ns()
            inside = self._entered
            if not inside:
                self._entered = self.hook_began_ns = began
                if self.mark is not None:
                    self._open_mark = self.mark()
                    self._open_mark.__enter__()
            try:
                return hook(*args, **kwargs)
            except Exception as e:
                if raised_by_signal_handler(e):
                    raise  # without the recorder it would have come up a moment later
                self.fault(part, e)  # a recorder that raises into a training is worse than none
                return None
            finally:
                ended = perf_counter_ns()
                if not inside:
                    if self._open_mark is not None:
                        self.end_mark()
                    self.recorder_ns += ended - self._entered
                    self._entered = 0
                if kind is not None:
                    self.budget.spent(kind, ended - began)

        return call

    def end_mark(self) -> None:
        """End the mark of the hook in progress, if it has one: a range must not outlive the profiler it was begun under."""
        mark, self._open_mark = self._open_mark, None
        if mark is not None:
            mark.__exit__(None, None, None)

    def fault(self, part: str, error: Exception) -> None:
        """Say once that a part of the recorder failed, and switch it off."""
        if STRICT and isinstance(error, RowError):
            raise error
        self._off.add(part)
        self.faults += 1
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
        note_process(self.run, fault=(part, self.secrets.text(f"{type(error).__name__}: {error}")))
        if self.started:  # at once: the part may be the one that writes
            with suppress(Exception):
                self.write(("events",))

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
            self._rows.stats.append((self.microbatch, seq, phase, tensor_id, *m, missing, requires_grad))
        else:  # still on its way from a device
            place = (self.microbatch, seq, phase, tensor_id)
            self._rows.late_stats.append((len(self._rows.stats), m))
            self._rows.stats.append((*place, *UNKNOWN, missing, requires_grad))
        return seq

    def called(self, letter: str) -> None:
        """A call of the script, for `steps.calls`; cut where a closure or a long accumulation makes it useless."""
        if len(self.calls) < _MOST_CALLS:
            self.calls += letter

    def since_row(self) -> int:
        """Nanoseconds since the last row of `steps` was made, or since recording began."""
        return perf_counter_ns() - self._last_flush

    def next_seq(self) -> int:
        """The next number in the order of capture."""
        self.seq += 1
        return self.seq - 1

    def add(self, table: str, **values: Any) -> Row:
        """A row of any other table; columns left out are null, but rank, step and microbatch are filled in.

        The row may be changed until the step is written: ``session.flushes`` tells. Raises RowError for a table or column
        that is not declared.
        """
        check_row(table, values.keys())
        if self.unwatched:
            values.setdefault("step", self.step)  # it is written later
        if table in OF_MICROBATCHES:
            values.setdefault("microbatch", self.microbatch)
        self._rows.of[table].append(values)
        return values

    def stat_index(self) -> int:
        """Place that the next row of tensor_stats will have in the buffer, for ``move_stat``."""
        return len(self._rows.stats)

    def move_stat(self, index: int, phase: int) -> None:
        """A row still in the buffer turns out to belong to another phase."""
        self._rows.move_stat(index, phase)

    def put_moments(self, index: int, moments: Moments) -> None:
        """A tensor whose row is still in the buffer was measured again."""
        self._rows.put_moments(index, moments)

    def spill(self) -> None:
        """Write what a long evaluation between two steps has collected, so that the buffer stays small."""
        if len(self._rows.stats) > _MOST_BUFFERED:
            self.flushes += 1
            self.write(WRITE_ORDER)

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
            message=self.secrets.text(message),
            detail=json_text(self.secrets.value(detail)) if detail else None,
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
        for part, extra in self.at_finish:
            if part not in self._off:
                try:
                    extra()
                except Exception as e:
                    if raised_by_signal_handler(e):
                        raise
                    self.fault(part, e)
        now = perf_counter_ns()
        if self._entered:
            self.recorder_ns += now - self._entered
            self._entered = now
        own: Row = {
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
            "journal_bytes": self._rows.journal_bytes,
            "detail": self.budget.detail(),
            **device_memory(),
        }
        self.add("steps", **own | self._declared_facts(own))
        for norm, parts in self.norm_parts.items():
            for share, part in parts.items():
                known = None if share.summands else part
                self.add("norm_parts", optimizer_id=optimizer_id, norm=norm, ranks=share.ranks, part=known)
        self.norm_parts = {}
        self.evaluations = self.facts.get("eval_forwards", 0)
        self.budget.row_ended(now - self._last_flush, self.recorder_ns)
        self._new_row(now)
        self.last_recorder_ns = self.recorder_ns
        self.recorder_ns = 0
        self.flushes += 1
        began = perf_counter_ns()
        self.write(WRITE_ORDER)
        self.budget.wrote(perf_counter_ns() - began)

    def _new_row(self, now: int) -> None:
        """Nothing is known of the next row of `steps` yet."""
        self.facts, self.calls, self.zero_grads = {}, "", 0
        self._last_flush = now
        self.clock = dict.fromkeys(self.clock, 0)
        self.losses = []
        self.microbatch = 0

    def _declared_facts(self, own: Row) -> Row:
        """The facts of a step without those that are no columns of `steps`, or that would overrule what this file knows."""
        wrong = unknown_columns("steps", self.facts)
        wrong += [name for name in self.facts if name in own and name not in _MAY_BE_OVERRULED]
        if not wrong:
            return self.facts
        self._misfits(f"steps cannot take {', '.join(sorted(wrong))}")
        return {name: value for name, value in self.facts.items() if name not in wrong}

    def _misfits(self, what: str) -> None:
        """Say once of each kind that something does not fit its table; the step is written without it."""
        if STRICT:
            raise RowError(what)
        if what not in self._off:
            self._off.add(what)
            self.event("recorder-fault", f"rows: {what}", detail={"part": "rows"})

    def advance(self) -> None:
        """The iteration is over."""
        for extra in self.at_advance:
            extra()
        self._account(self.budget.step_ended(self.step))
        self.step += 1
        self.seq = 0
        self.microbatch = 0
        self.note(Phase.DATA, -1)

    def look_away(self) -> None:
        """The next steps go unwatched."""
        self.unwatched = True
        self.note(Phase.DATA, -1)

    def count_step(self) -> None:
        """A step that goes unwatched is over."""
        self.step = step = self.step + 1
        if self._breadcrumb is not None:
            self._breadcrumb.count(step)

    def write_at_once(self, rows: list[Row]) -> None:
        """Append complete rows of `unwatched_steps` to the journal."""
        self._say_refused(self._rows.write_at_once(rows))

    def look_again(self) -> None:
        """Steps are watched again."""
        self.unwatched = False
        self.recorder_ns = 0
        self.seq = 0
        self._new_row(perf_counter_ns())
        self.note(self.phase, -1)

    def reopen(self, seq: int) -> None:
        """The iteration that seemed to be over goes on, after so many rows of it."""
        self.step -= 1
        self.seq = seq

    def _account(self, rows: list[Row]) -> None:
        """What the recorder took and how it adapted."""
        time = time_ns()
        for row in rows:
            self.add("recorder_stats", time_ns=time, **row)

    def write(self, tables: tuple[str, ...]) -> None:
        """Append the collected rows of these tables to the journal."""
        for what in self._rows.take_misfits():
            self._misfits(what)
        self._say_refused(self._rows.write(self.step, tables, wait=not self._running))

    def _say_refused(self, refusals: list[OSError]) -> None:
        for refused in refusals:
            self._dropped += 1
            if self._dropped == 1:
                warn("journal", f"{self.run}: {refused.strerror}; rows are dropped and counted, training goes on")
            self.event(
                "rows-dropped",
                f"the journal did not take a step: {refused.strerror}",
                detail={"steps_dropped": self._dropped},
            )


def _mean(values: list[float]) -> float | None:
    return sum(values) / len(values) if values else None

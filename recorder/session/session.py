"""Hold the recording session of one process: its parts, its life, and where one step ends and the next begins.

`position` says where the process is. `signals` tell what happens. `step_row` is the row of `steps` in the making. `rows` are
what was collected and how it is written. `guard` keeps all of it away from the training: a failure in here is caught, said once
and written as an event, and that part switches itself off.
"""

from pathlib import Path
from time import perf_counter_ns, time_ns
from typing import Any

from torch.optim.optimizer import register_optimizer_step_post_hook
from torch.utils.data import get_worker_info

from ...schemas import Phase
from ...schemas.files.layout import JOURNAL, rank_folder
from ...schemas.files.secrets import Redactor
from ...schemas.files.step_values import Row
from ..base.options import options_of
from ..base.selection import chosen
from ..base.terminal import warn
from ..storage.attempt import EarlierNames, attempt_of, earlier_names
from ..storage.journal import JournalWriter, segment_bytes
from ..tensors.device import Late
from .budget import Budget
from .guard import Guard
from .position import Position
from .ranks import rank_and_world, rank_row, say_unrecorded
from .registry import Catalogue
from .rows import WRITE_ORDER, Rows
from .signals import Answers, Signals
from .step_row import StepRow


class Session:
    """One process's recording. Created when torch is imported; touches the disk when the first model trains."""

    def __init__(self, run: Path) -> None:
        self.run = run
        self.options = options_of(run)
        self.secrets = Redactor.of_this_process(keep=self.options.keep_secrets)
        self.attempt = attempt_of(run)
        self.budget = Budget(self.options, self.attempt.first_step)
        self.catalogue = Catalogue(chosen=chosen(self.options), earlier=self._earlier_names)
        self.position = Position(self.attempt.first_step)
        self.rows = Rows(run, self.position, self.catalogue, self.secrets)
        self.step_row = StepRow(self.rows)
        self.guard = Guard(run, self.rows, self.budget, self.secrets)
        self.signals = Signals(self.guard)
        self.answers = Answers(lambda: self.position.step)
        self.attaching_ns = 0
        """Time that loading the recorder and putting it into torch took."""
        self.started = False
        """Whether something trains, so that there is a recording."""
        self.alone = True
        """Whether this is the only rank."""

    # -- life -------------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Claim this process's rank and open its files; called at the first sign of training."""
        if self.started or not self.guard.alive:
            return
        if get_worker_info() is not None:
            self.guard.alive = False  # a dataset may run a model of its own; that is not the training
            return
        self.started = True
        rank, world_size = rank_and_world()
        if not self._claim(rank):
            self.guard.alive = False
            return
        self.catalogue.rank = rank
        self.alone = world_size <= 1
        self.rows.journal = JournalWriter(
            self.run, rank, self.attempt.first_part, segment_bytes(self.options.disk_limit_bytes, max(world_size, 1))
        )
        self.position.begin_breadcrumb(self.run, rank)
        row: Row = rank_row(world_size)
        self.signals.recording_begins.emit(row)
        self.rows.add("ranks", **row)
        self._account([self._once("start", self.attaching_ns)])
        if self.attempt.number > 1:
            self.rows.event(
                "attempt",
                f"attempt {self.attempt.number} of the run begins with step {self.attempt.first_step}",
                detail={"attempt": self.attempt.number, "first_step": self.attempt.first_step},
            )
        self.step_row.restart_clock()
        self.rows.write(("ranks", "events", "collectives", "recorder_stats"))
        self.signals.recording_began.emit()

    def _claim(self, rank: int) -> bool:
        """Make the folder of a rank; whether that is this process's now."""
        folder = self.run / JOURNAL / rank_folder(rank)
        try:
            folder.parent.mkdir(parents=True, exist_ok=True)
            folder.mkdir()
        except FileExistsError:
            say_unrecorded(self.run, rank)
            return False
        except OSError as e:
            warn("run-folder", f"{folder}: {e.strerror}; this process is not recorded")
            return False
        return True

    def _earlier_names(self) -> EarlierNames:
        return earlier_names(self.run, rank_and_world()[0]) if self.attempt.number > 1 else EarlierNames()

    def close(self) -> None:
        """Write what an unfinished step has left, then close the files."""
        if not self.guard.alive:
            return
        if self.rows.journal is not None:
            began = perf_counter_ns()
            self.guard.guarded("close", self._end_unfinished)()
            self.rows.closing = True
            self._account(self.budget.account(max(self.position.step - 1, 0)))
            self._account([self._once("end", perf_counter_ns() - began)])
            self.rows.write(WRITE_ORDER)
            self.rows.journal.close()
            if not self.rows.dropped:
                self.position.forget_rows()
        self.guard.alive = False

    def _end_unfinished(self) -> None:
        self.signals.recording_ends.emit()
        if self.rows.unfinished or self.step_row.losses:
            self.write_step_row(optimizer_id=None, stepped=False, completed=False)

    def abandon(self) -> None:
        """After a fork: the child must not write what belongs to its parent, and says so if it trains all the same. Where
        the parent records nothing yet, such as a script that forks its trainers, the child records itself."""
        if not self.started or not self.guard.alive:
            return
        self.guard.alive = False
        self.rows.journal = None
        self.position.drop_breadcrumb()
        unsaid = [True]

        def say(*_: Any) -> None:
            if unsaid:
                unsaid.clear()
                say_unrecorded(self.run, rank_and_world()[0])

        register_optimizer_step_post_hook(say)

    # -- steps ------------------------------------------------------------------------------------------------------------

    def write_step_row(
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
        position, guard, budget = self.position, self.guard, self.budget
        self.signals.row_ends.emit()
        step_ns = self.step_row.end(
            guard,
            position.microbatch,
            budget.detail(),
            optimizer_id=optimizer_id,
            stepped=stepped,
            completed=completed,
            skipped_by_scaler=skipped,
            grad_norm=grad_norm,
            carried_grad_norm=carried,
        )
        budget.row_ended(step_ns, guard.recorder_ns)
        position.last_microbatches, position.microbatch = position.microbatch, 0
        guard.recorder_ns = 0
        position.flushes += 1
        began = perf_counter_ns()
        self.rows.write(WRITE_ORDER)
        budget.wrote(perf_counter_ns() - began)

    def end_iteration(self) -> None:
        """The iteration is over."""
        position = self.position
        self.signals.step_ends.emit()
        self._account(self.budget.step_ended(position.step))
        position.step += 1
        position.seq = 0
        position.microbatch = 0
        position.leave_breadcrumb(Phase.DATA, -1)

    def look_away(self) -> None:
        """The next steps go unwatched."""
        self.signals.looks_away.emit()
        self.position.unwatched = True
        self.position.leave_breadcrumb(Phase.DATA, -1)

    def look_again(self) -> None:
        """Steps are watched again."""
        position = self.position
        position.unwatched = False
        self.guard.recorder_ns = 0
        position.seq = position.microbatch = 0
        self.step_row.begin()
        position.leave_breadcrumb(position.phase, -1)

    def _once(self, part: str, ns: int) -> Row:
        step = max(self.position.step - 1, self.attempt.first_step)
        return {"step": step, "part": part, "ns": ns, "calls": 1, "interval": None, "reason": None}

    def _account(self, rows: list[Row]) -> None:
        """What the recorder took and how it adapted."""
        time = time_ns()
        for row in rows:
            self.rows.add("recorder_stats", time_ns=time, **row)

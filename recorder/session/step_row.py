"""The row of table `steps` that is in the making: what is added up until an iteration ends."""

from time import perf_counter_ns, time_ns
from typing import Any

from ...schemas.files.step_values import Row
from ..tensors.device import Late, join_when_ready
from ..tensors.norm_parts import Norm, Share
from .guard import Guard
from .process_memory import device_memory
from .row_checks import unknown_columns
from .rows import Rows

_MOST_CALLS = 64

_MAY_BE_OVERRULED = frozenset(("stepped", "eval_forwards", "scheduler_steps"))
"""Columns that this file fills in, and of which another part may know better."""


class StepRow:
    """Everything is empty again once the row is made. The parts of loop/ write the attributes, each one of them; listeners of
    ``row_ends`` add columns to ``facts``."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows
        self._began = perf_counter_ns()
        """When the last row was made, or recording began."""
        self.clock: dict[str, int] = {"data": 0, "forward": 0, "backward": 0, "optimizer": 0}
        """Nanoseconds of each phase."""
        self.losses: list[float | Late | None] = []
        self.training: bool | None = None
        self.loss_scale: float | Late | None = None
        """Both stay as they are until another is seen."""
        self.calls = ""
        self.zero_grads = 0
        self.facts: Row = {}
        """Columns that other parts know."""
        self.norm_parts: dict[str, dict[Share, Norm]] = {}
        """Norm → its parts, where some of the gradients are sharded."""
        self.evaluations = 0
        """Forwards without gradients of the last row."""
        self.last_recorder_ns = 0
        """What the recorder took for the last row."""

    def log_call(self, letter: str) -> None:
        """A call of the script, for `steps.calls`; cut where a closure or a long accumulation makes it useless."""
        if len(self.calls) < _MOST_CALLS:
            self.calls += letter

    def since_row(self) -> int:
        """Nanoseconds since the last row was made, or since recording began."""
        return perf_counter_ns() - self._began

    def begin(self, now: int | None = None) -> None:
        """Nothing is known of the row yet."""
        self.facts, self.calls, self.zero_grads = {}, "", 0
        self._began = perf_counter_ns() if now is None else now
        self.clock = dict.fromkeys(self.clock, 0)
        self.losses = []

    def restart_clock(self) -> None:
        """What came before does not count: recording begins only now."""
        self._began = perf_counter_ns()

    def end(self, guard: Guard, microbatches: int, budget_detail: str, **known: Any) -> int:
        """Make the row, of what was collected and what only its end shows; returns its nanoseconds. The next one begins."""
        now = guard.until_row()
        took = now - self._began
        clock = self.clock
        own: Row = {
            **known,
            "time_ns": time_ns(),
            "microbatches": microbatches,
            "loss": join_when_ready([v for v in self.losses if v is not None], _mean),
            "loss_scale": self.loss_scale,
            "training": self.training,
            "eval_forwards": 0,
            "calls": self.calls,
            "zero_grads": self.zero_grads,
            "scheduler_steps": 0,
            "step_ns": took,
            "data_wait_ns": clock["data"],
            "forward_ns": clock["forward"],
            "backward_ns": clock["backward"],
            "optimizer_ns": clock["optimizer"],
            "recorder_ns": guard.recorder_ns,
            "journal_bytes": self._rows.journal_bytes,
            "detail": budget_detail,
            **device_memory(),
        }
        self._rows.add("steps", **own | self._declared_facts(own))
        for norm, parts in self.norm_parts.items():
            for share, part in parts.items():
                value = None if share.summands else part
                self._rows.add(
                    "norm_parts", optimizer_id=known["optimizer_id"], norm=norm, ranks=share.ranks, part=value
                )
        self.norm_parts = {}
        self.evaluations = self.facts.get("eval_forwards", 0)
        self.begin(now)
        self.last_recorder_ns = guard.recorder_ns
        return took

    def _declared_facts(self, own: Row) -> Row:
        """The facts of a step without those that are no columns of `steps`, or that would overrule what this file knows."""
        wrong = unknown_columns("steps", self.facts)
        wrong += [name for name in self.facts if name in own and name not in _MAY_BE_OVERRULED]
        if not wrong:
            return self.facts
        self._rows.misfit(f"steps cannot take {', '.join(sorted(wrong))}")
        return {name: value for name, value in self.facts.items() if name not in wrong}


def _mean(values: list[float]) -> float | None:
    return sum(values) / len(values) if values else None

"""Which costly kinds of measurement are due in this step, so that the recorder stays within its share of the step time.

Every kind has an interval: the option ``every`` times a power of two. Kinds are due at the steps that their interval divides,
so the steps of a longer interval are steps of every shorter one: where the rarest kind was measured, all were. Scalars, the
gradient norm and the search for non-finite values do not ask: they run at every step.

How intervals are found. The cost of a kind is the mean of what it took in the last steps that measured it, and what the
recorder takes beside the kinds is the mean over steps, without what is far from all others. As long as the sum of cost ÷
interval leaves the budget, the interval of the kind with the largest quotient is doubled. Intervals grow at once and shrink one
doubling at a time, and only where the result would need no more than 70 % of the budget: between the two nothing changes. Until
the recorder has used up the option ``grace_s`` over the run, everything is measured: a short run keeps every detail.

At events (``full_detail``) everything is due for some steps, whatever the intervals; each reason is granted a few times, then
seldom, so that a run that stays broken does not stay expensive. What they and all else have taken beyond the budget is saved
over the steps that follow.
"""

from collections import deque
from collections.abc import Collection
from statistics import fmean, median
from typing import Any, Literal, get_args

from ..base.options import Options

Kind = Literal[
    "activations",
    "activation_gradients",
    "gradients",
    "parameters",
    "updates",
    "optimizer_state",
    "buffers",
]
KINDS: tuple[Kind, ...] = get_args(Kind)

FIRST_STEPS = 3
"""Steps at the beginning of a run that are measured in full, whatever the options: the state before any harm."""

REPORT_EVERY = 100
"""Steps between two accounts of the recorder's own cost."""

LONGEST = 1024
"""Times the option ``every``: no kind is measured more rarely, however small the budget."""

_EASY = 0.7
"""Share of the budget that a shorter interval may need to be taken up again."""

_LEAST_FOR_KINDS = 0.25
"""Share of the budget that the costly kinds keep where everything else takes more than the rest of it, as it does with very
many tiny modules: thinning them further would save little and lose the recording."""

_FEW_EVALUATIONS = 64
"""Evaluation forwards between two training steps that are all measured."""

_OUTLIER = 3
"""Times the median, above which a cost counts as no more: the budget is to hold on average, not after one swapped page."""

_SAVED_OVER = 128
"""Steps over which what was overdrawn is saved; more than the budget of so many steps is never owed."""

_DECIDE_EVERY = 8
_COSTS = 7
_TIMES = 48
_FREE_GRANTS = 3
_GRANT_EVERY = 100
_ROWS_OF_NOTHING = 32
"""Rows of tensor statistics that cost about as much to write as a step without any."""


class Budget:
    """Asked by the watches before they measure; told what they took, and at the end of each step what the step took."""

    def __init__(self, options: Options, first_step: int = 0) -> None:
        self.options = options
        self.step = first_step
        self.used_ns = 0
        """What the recorder has taken over the whole run."""
        self.intervals: dict[Kind, int] = dict.fromkeys(KINDS, options.every)
        self._full_until = first_step + FIRST_STEPS
        self._granted: dict[str, tuple[int, int]] = {}
        self._left_out: set[Kind] = set()
        self._asked: set[Kind] = set()
        self._now: dict[Kind, list[int]] = {}
        self._costs: dict[Kind, deque[int]] = {}
        self._rest: deque[int] = deque(maxlen=_TIMES)
        self._plain: deque[int] = deque(maxlen=_TIMES)
        self._plain_ns = 0
        self._recorder_ns = 0
        """Of the iteration, without the writing of rows."""
        self._write_ns = 0
        self._unsettled_ns = 0
        """Time of writing that the next row's recorder_ns will hold."""
        self._totals: dict[str, list[int]] = {}
        self._enforced = False
        self._owed_ns = 0.0
        """What was taken beyond the budget since it is enforced, and is not saved yet."""
        self._measured_since = 0

    # -- asked and told by the watches -------------------------------------------------------------------------------------

    def due(self, kind: Kind) -> bool:
        """Whether a kind is to be measured in this step. A kind that was refused once counts as not measured in it."""
        self._asked.add(kind)
        if self.step < self._full_until or self.step % self.intervals[kind] == 0:
            return True
        self._left_out.add(kind)
        return False

    def evaluation_due(self, count: int, row_ns: int, recorder_ns: int) -> bool:
        """Whether the ``count``-th forward without gradients since the last step is to be measured. Small models are evaluated
        sample by sample, or act that often in an environment: beyond the first, the forwards are measured that the budget
        allows by what the recorder took of the time since that step, and ever fewer in any case."""
        if count <= _FEW_EVALUATIONS or not self._enforced or self.step < self._full_until:
            return True
        stride = 1 << (count // _FEW_EVALUATIONS).bit_length()
        return count % stride == 0 or recorder_ns <= (self.options.budget or 0.0) * row_ns

    def spent(self, kind: Kind, ns: int, tensors: int = 1) -> None:
        """A kind was measured: nanoseconds, and rows that it made."""
        now = self._now.get(kind)
        if now is None:
            self._now[kind] = [ns, tensors]
        else:
            now[0] += ns
            now[1] += tensors

    def wrote(self, ns: int) -> None:
        """Rows were put into the journal; the time is in that of the row after."""
        self._write_ns += ns
        self._unsettled_ns += ns

    def full_detail(self, steps: int, reason: str) -> bool:
        """Everything is due in this step, from here on, and in the ``steps`` - 1 after it; False where it is refused
        because the same reason has been granted too often."""
        count, last = self._granted.get(reason, (0, -_GRANT_EVERY))
        if self.step != last:
            if count >= _FREE_GRANTS and self.step < last + _GRANT_EVERY:
                return False
            self._granted[reason] = (count + 1, self.step)
        self._full_until = max(self._full_until, self.step + steps)
        return True

    @property
    def full(self) -> bool:
        """Whether nothing has been left out in this step so far."""
        return not self._left_out

    def detail(self) -> str:
        """Kinds that were not measured in this step, or not wholly, as in column detail of `steps`."""
        return " ".join(sorted(self._left_out))

    # -- the end of a step ----------------------------------------------------------------------------------------------------

    def row_ended(self, step_ns: int, recorder_ns: int) -> None:
        """A row of `steps` was made; an iteration may have several."""
        self._plain_ns += step_ns - recorder_ns
        self._recorder_ns += max(recorder_ns - self._unsettled_ns, 0)
        self._unsettled_ns = 0
        self.used_ns += recorder_ns

    def step_ended(self, step: int) -> list[dict[str, Any]]:
        """The iteration is over; decide for the next. Returns rows of `recorder_stats` when there is something to say."""
        self._account()
        self.step = step + 1
        limit = self.options.budget
        self._enforced = limit is not None and self.used_ns >= self.options.grace_s * 1e9
        changed = False
        if self._enforced and self._measured_since >= _DECIDE_EVERY and len(self._rest) >= 3:
            changed = self._decide(limit or 0.0)
            self._measured_since = 0
        if changed or step == 0 or (step + 1) % REPORT_EVERY == 0:
            return self.account(step)
        return []

    def account(self, step: int) -> list[dict[str, Any]]:
        """Rows of `recorder_stats`: what every part took since its row before."""
        rows = [
            self._row(step, kind, self.intervals[kind], self._reason(self.intervals[kind]))
            for kind in KINDS
            if kind in self._asked or kind in self._totals
        ]
        rows += [self._row(step, part, 1, "full") for part in ("rows", "rest") if part in self._totals]
        self._totals = {}
        return rows

    def share(self) -> float | None:
        """Recorder's share of a step without it, as the intervals stand; None while too little is known."""
        if len(self._plain) < 3:
            return None
        return (self._rest_ns() + sum(self._cost(k) / self.intervals[k] for k in self._costs)) / median(self._plain)

    def _row(self, step: int, part: str, interval: int, reason: str) -> dict[str, Any]:
        ns, calls = self._totals.get(part, (0, 0))
        return {"step": step, "part": part, "ns": ns, "calls": calls, "interval": interval, "reason": reason}

    def _reason(self, interval: int) -> str:
        if interval > self.options.every:
            return "budget"
        if interval > 1:
            return "option"
        return "off" if self.options.budget is None else "full"

    def _account(self) -> None:
        """Close the books of one iteration."""
        rows = sum(count for _, count in self._now.values())
        for kind, (ns, count) in self._now.items():
            # what its rows took in the writing is part of a kind's price
            price = ns + self._write_ns * count // (rows + _ROWS_OF_NOTHING)
            self._costs.setdefault(kind, deque(maxlen=_COSTS)).append(price)
            self._add(kind, ns, count)
        rest = max(self._recorder_ns - sum(ns for ns, _ in self._now.values()), 0)
        self._rest.append(rest + self._write_ns * _ROWS_OF_NOTHING // (rows + _ROWS_OF_NOTHING))
        self._plain.append(max(self._plain_ns, 1))
        if self._enforced:
            allowed = (self.options.budget or 0.0) * self._plain_ns
            owed = self._owed_ns + self._recorder_ns + self._write_ns - allowed
            self._owed_ns = min(max(owed, 0.0), _SAVED_OVER * allowed)
        self._add("rows", self._write_ns, rows)
        self._add("rest", rest, 1)
        self._now = {}
        self._left_out = set()
        self._plain_ns = self._recorder_ns = self._write_ns = 0
        self._measured_since += 1

    def _add(self, part: str, ns: int, calls: int) -> None:
        total = self._totals.setdefault(part, [0, 0])
        total[0] += ns
        total[1] += calls

    def _cost(self, kind: Kind) -> float:
        return _mean(self._costs[kind])

    def _rest_ns(self) -> float:
        return _mean(self._rest)

    def _decide(self, limit: float) -> bool:
        """Set the intervals; True if any has changed."""
        allowed = limit * median(self._plain) - self._owed_ns / _SAVED_OVER
        rest = self._rest_ns()
        least = _LEAST_FOR_KINDS * limit * median(self._plain)
        needed, easy = self._plan(max(allowed - rest, least)), self._plan(max(_EASY * allowed - rest, _EASY * least))
        before = dict(self.intervals)
        for kind in self._costs:
            now = self.intervals[kind]
            if now < needed[kind]:
                self.intervals[kind] = needed[kind]
            elif now > easy[kind]:
                self.intervals[kind] = max(now // 2, easy[kind])
        return self.intervals != before

    def _plan(self, spare_ns: float) -> dict[Kind, int]:
        """The shortest intervals, by the doubling above, that fit into what is left a step."""
        costs: dict[Kind, float] = {kind: self._cost(kind) for kind in KINDS if kind in self._costs}
        plan: dict[Kind, int] = dict.fromkeys(costs, self.options.every)
        while sum(costs[k] / plan[k] for k in plan) > spare_ns:
            open_: list[Kind] = [k for k in plan if plan[k] < LONGEST * self.options.every]
            if not open_:
                break
            dearest = max(open_, key=lambda k: costs[k] / plan[k])
            plan[dearest] *= 2
        return plan


def _mean(values: Collection[int]) -> float:
    """Mean, in which what is far above the others counts for less."""
    most = _OUTLIER * median(values)
    return fmean([min(value, most) for value in values])

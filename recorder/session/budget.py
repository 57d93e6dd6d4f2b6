"""Which costly kinds of measurement are due in this step, so that the recorder stays within its share of the step time.

Every kind has an interval: the option ``every`` times a power of two. Kinds are due at the steps that their interval divides,
so the steps of a longer interval are steps of every shorter one: where the rarest kind was measured, all were. Scalars, the
gradient norm and the search for non-finite values do not ask: they run at every step that is watched. All steps are, unless a
model is so small that watching takes most of the budget by itself: then steps have an interval too, and of those between two
watched ones only time and loss are kept (loop/unwatched_steps.py).

How intervals are found. The cost of a kind is the mean of what it took in the last steps that measured it, and what the
recorder takes beside the kinds is the mean over watched steps, without what is far from all others. Two thirds of the budget are
for what these clocks see, the rest for what they do not: "budget" below means the first. As long as the sum of cost ÷ interval
leaves the budget, the interval of the kind with the largest quotient is doubled. Intervals grow at once and shrink one doubling
at a time, and only where the result would need no more than 70 % of the budget: between the two nothing changes.

Before that everything is measured: the first steps of a run, until the recorder has used up the option ``grace_s``, and in any
case a fifth of it. What it waited for a processor on a busy machine does not count. Between the two, measuring in full ends
where it takes more than a fifth of the time: such a run has had many steps by then.

At events (``full_detail``) everything is due for some steps, whatever the intervals; each reason is granted a few times, then
seldom, so that a run that stays broken does not stay expensive. What they and all else have taken beyond the budget is saved
over the steps that follow.
"""

from collections import deque
from collections.abc import Collection
from statistics import fmean, median
from typing import Any, Literal, get_args

from ..base.options import Options
from .processor_share import ProcessorShare

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

_PAID_FOR_SEEN = 1.5
"""What late steps pay for the recorder, over what its own clocks see: the rest lies in caches that it spoils and in torch's own
calls of hooks. By whole processes side by side (docs/figures.md); the budget is for what is paid."""

_EASY = 0.7
"""Share of the budget that a shorter interval may need to be taken up again."""

_LEAST_FOR_KINDS = 0.25
"""Share of the budget that the costly kinds keep where everything else takes more than the rest of it, as it does where every
step must be watched: thinning them further would save little and lose the recording."""

_MOST_FOR_WATCHING = 0.5
"""Share of the budget that watching every step may take before steps go unwatched."""

COUNT_NS = 9_000
LOSS_NS = 60_000
LOOK_NS = 10_000
PASS_NS = 9_000
"""What counting a step that is not watched takes, what reading its loss and writing its row takes on top, looking at an operator
of its graph, and letting a backward pass by: caches that it spoils are most of it, which no clock inside sees. Estimates, from
how long steps of an MLP took in one process with and without it; tests/benchmarks/whole_runs.py shows what whole processes
pay."""

_MOST_FOR_LOSSES = 0.4
"""Share of the budget that reading losses of such steps, and looking at operators of their graphs, may take."""

MOST_BETWEEN_LOSSES = 16

_FULL_STEPS = 256
_FULL_PART = 0.2
_FULL_SHARE = 0.2
"""So many steps are measured in full within the grace; then, from this part of it on, only while recording takes no more than
this share of the time. Conventions: the first phase of a training, at a cost that a short script does not notice."""

_FEW_EVALUATIONS = 64
"""Evaluation forwards between two training steps that are all measured."""

_OUTLIER = 3
"""Times the median, above which a cost counts as no more: the budget is to hold on average, not after one swapped page."""

_SAVED_OVER = 128
"""Steps over which what was overdrawn is saved; more than the budget of so many steps is never owed."""

_LITTLE = 3
"""Times what the recorder took in the cheapest of the last iterations, up to which an iteration shows what a plain one takes."""

_DECIDE_EVERY = 8
_COSTS = 7
_STRETCHES = 7
_STRETCH = 8
"""Steps that a stretch must have for its mean to count."""
_TIMES = 48
_FREE_GRANTS = 3
_GRANT_EVERY = 100
"""Steps between two grants for one reason; more where steps are watched so seldom that a grant would outweigh them."""
_ROWS_OF_NOTHING = 32
"""Rows of tensor statistics that cost about as much to write as a step without any."""


class Budget:
    """Asked by the watches before they measure; told what they took, and at the end of each step what the step took."""

    def __init__(self, options: Options, first_step: int = 0, processor: ProcessorShare | None = None) -> None:
        self.options = options
        self._processor = processor or ProcessorShare()
        self._limit = None if options.budget is None else options.budget / _PAID_FOR_SEEN
        """Share of the step time that the recorder may take by its own clocks."""
        self.step = first_step
        self.used_ns = 0
        """What the recorder has taken over the whole run."""
        self.intervals: dict[Kind, int] = dict.fromkeys(KINDS, options.every)
        self.watched_every = 1
        """Interval of the steps that are watched."""
        self.watching_is_dear = False
        """Whether watching every step takes more than its part of the budget."""
        self.steps_can_go_unwatched = False
        """Whether that can be changed, as loop/unwatched_steps.py finds."""
        self.backwards = 1
        """Calls of backward in a step: one for each microbatch."""
        self.every_loss = True
        """Whether the loss of each of them is read in a step that is not watched, or that of the last alone."""
        self._losses_every = 1
        """Interval of the steps in which it is, among those that are not watched."""
        self._first_step = first_step
        self._told_at = first_step
        """Step after the last account."""
        self._ran_ns = 0
        """What the training has taken over the whole run, without the recorder."""
        self._full_until = first_step + FIRST_STEPS
        self._granted: dict[str, tuple[int, int]] = {}
        self._left_out: set[Kind] = set()
        self._asked: set[Kind] = set()
        self._now: dict[Kind, list[int]] = {}
        self._costs: dict[Kind, deque[int]] = {}
        self._rest: deque[int] = deque(maxlen=_TIMES)
        self._plain: deque[int] = deque(maxlen=_TIMES)
        self._unwatched: deque[int] = deque(maxlen=_STRETCHES)
        """Mean time of a step in each of the last stretches of steps that went unwatched, without the recorder."""
        self._recent: deque[tuple[int, int]] = deque(maxlen=_TIMES)
        """Of the last watched iterations: what the recorder took by its own clock, and what the rest took."""
        self._plain_ns = 0
        self._recorder_ns = 0
        """Of the iteration, without the writing of rows."""
        self._write_ns = 0
        self._unsettled_ns = 0
        """Time of writing that the next row's recorder_ns will hold."""
        self._totals: dict[str, list[int]] = {}
        self._grace_over = False
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

    def unwatched_steps(self, step: int) -> tuple[int, int]:
        """How many steps from ``step`` on need not be watched, and at how many of them one loss is read."""
        if self.watched_every == 1 or not self._enforced or step < self._full_until:
            return 0, 1
        return -step % self.watched_every, self._losses_every

    def may_look(self, operators: int) -> bool:
        """Whether so many operators of the graph may be looked at in each step that is not watched and whose loss is read."""
        return self._losses_ns() + operators * LOOK_NS <= self._most_for_losses()

    def _losses_ns(self) -> int:
        """What it takes in one step to read its loss."""
        passed = 0 if self.every_loss else self.backwards - 1
        return (self.backwards - passed) * LOSS_NS + passed * PASS_NS

    def _most_for_losses(self) -> float:
        return _MOST_FOR_LOSSES * (self._limit or 0.0) * self._plain_step_ns()

    def went_unwatched(
        self, step: int, count: int, losses_every: int, ns: int, looks: int = 0, own_ns: int = 0
    ) -> None:
        """``count`` steps up to before ``step`` went unwatched and took ``ns``; every ``losses_every``-th loss was read, and in
        each step ``looks`` operators of the graph were looked at. By its clock the recorder took ``own_ns`` for losses and
        rows."""
        taken = count * (COUNT_NS + self._losses_ns() // losses_every + looks * LOOK_NS)
        taken = max(taken, count * COUNT_NS + own_ns)
        self.step = step
        self.used_ns += taken
        self._ran_ns += max(ns - taken, 0)
        if count >= _STRETCH:
            self._unwatched.append(max(ns - taken, 1) // count)
        if self._enforced:
            self._owe(taken, max(ns - taken, 0))
        self._add("unwatched", taken, count)

    def evaluation_due(self, count: int, row_ns: int, recorder_ns: int) -> bool:
        """Whether the ``count``-th forward without gradients since the last step is to be measured. Small models are evaluated
        sample by sample, or act that often in an environment: beyond the first, the forwards are measured that the budget
        allows by what the recorder took of the time since that step, and ever fewer in any case. Where everything is measured the
        recorder may take its share of the first phase for them."""
        if count <= _FEW_EVALUATIONS or self._limit is None:
            return True
        full = not self._enforced or self.step < self._full_until
        if recorder_ns <= (_FULL_SHARE if full else self._limit) * row_ns:
            return True
        return count % (1 << (count // _FEW_EVALUATIONS).bit_length()) == 0

    def spent(self, kind: Kind, ns: int, tensors: int = 1) -> None:
        """A kind was measured: nanoseconds, and rows that it made."""
        now = self._now.get(kind)
        if now is None:
            self._now[kind] = [ns, tensors]
        else:
            now[0] += ns
            now[1] += tensors

    def wrote_snapshot(self, ns: int) -> None:
        """A thread beside the training has taken processor time to write a snapshot."""
        self._add("snapshots", ns, 1)
        if self._enforced:
            self._owe(ns, 0)

    def wrote(self, ns: int) -> None:
        """Rows were put into the journal; the time is in that of the row after."""
        self._write_ns += ns
        self._unsettled_ns += ns

    def full_detail(self, steps: int, reason: str) -> bool:
        """Everything is due in this step, from here on, and in the ``steps`` - 1 after it; False where it is refused
        because the same reason has been granted too often."""
        return self.full_detail_from(self.step, steps, reason)

    def full_detail_from(self, step: int, steps: int, reason: str) -> bool:
        """The same, from a step that is still to come."""
        apart = max(_GRANT_EVERY, steps * self.watched_every)
        count, last = self._granted.get(reason, (0, -apart))
        if step != last:
            if count >= _FREE_GRANTS and step < last + apart:
                return False
            self._granted[reason] = (count + 1, step)
        self._full_until = max(self._full_until, step + steps)
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
        self._ran_ns += step_ns - recorder_ns

    def step_ended(self, step: int) -> list[dict[str, Any]]:
        """The iteration is over; decide for the next. Returns rows of `recorder_stats` when there is something to say."""
        self._account()
        self.step = step + 1
        limit = self._limit
        self._grace_over = self._grace_over or self._grace_is_over()
        self._enforced = limit is not None and self._grace_over
        changed = False
        if self._enforced and self._measured_since >= _DECIDE_EVERY and len(self._rest) >= 3:
            changed = self._decide(limit or 0.0)
            self._measured_since = 0
        if changed or step == 0 or step + 1 >= self._told_at + REPORT_EVERY:
            self._told_at = step + 1
            return self.account(step)
        return []

    def _grace_is_over(self) -> bool:
        grace_ns = self.options.grace_s * 1e9
        least_ns = grace_ns if self.step < self._first_step + _FULL_STEPS else _FULL_PART * grace_ns
        if self.used_ns < least_ns:
            return False
        used_ns = self.used_ns * self._processor.share()  # the grace is for what is done, not for waiting in a queue
        return used_ns >= grace_ns or (used_ns >= least_ns and self.used_ns >= _FULL_SHARE * self._ran_ns)

    def account(self, step: int) -> list[dict[str, Any]]:
        """Rows of `recorder_stats`: what every part took since its row before."""
        rows = [
            self._row(step, kind, self.intervals[kind], self._reason(self.intervals[kind]))
            for kind in KINDS
            if kind in self._asked or kind in self._totals
        ]
        rows += [
            self._row(step, part, every, self._reason(every))
            for part, every in (
                ("rows", self.watched_every),
                ("rest", self.watched_every),
                ("unwatched", 1),
                ("snapshots", 1),
            )
            if part in self._totals
        ]
        self._totals = {}
        return rows

    def share(self) -> float | None:
        """Recorder's share of a step without it, as the intervals stand; None while too little is known."""
        if len(self._plain) < 3:
            return None
        rest = self._rest_ns() / self.watched_every
        return (rest + sum(self._cost(k) / self.intervals[k] for k in self._costs)) / self._plain_step_ns()

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
        measured_ns = sum(ns for ns, _ in self._now.values())
        spoilt = self._spoilt_ns()
        for kind, (ns, count) in self._now.items():
            # what its rows took in the writing is part of a kind's price, and its share of what was spoilt
            aside = spoilt * ns // max(self._recorder_ns, measured_ns, 1)
            price = ns + aside + self._write_ns * count // (rows + _ROWS_OF_NOTHING)
            self._costs.setdefault(kind, deque(maxlen=_COSTS)).append(max(price, 0))
            self._add(kind, ns, count)
        self.used_ns += spoilt
        self._ran_ns -= spoilt
        own = max(self._recorder_ns - measured_ns, 0)
        of_the_rest = spoilt * own // max(self._recorder_ns, measured_ns, 1)
        self._rest.append(max(own + of_the_rest, 0) + self._write_ns * _ROWS_OF_NOTHING // (rows + _ROWS_OF_NOTHING))
        self._plain.append(max(self._plain_ns, 1))
        if self._enforced:
            self._owe(self._recorder_ns + self._write_ns + spoilt, self._plain_ns - spoilt)
        self._add("rows", self._write_ns, rows)
        self._add("rest", own + spoilt, 1)
        self._recent.append((self._recorder_ns, self._plain_ns))
        self._now = {}
        self._left_out = set()
        self._plain_ns = self._recorder_ns = self._write_ns = 0
        self._measured_since += 1

    def _spoilt_ns(self) -> int:
        """What the training took longer in this iteration than in those in which the recorder did little: calling hooks and the
        caches that they spoil, which no clock within them sees. It is held against iterations that went unwatched, else
        against those in which little was measured; against these it may be less than nothing, so that chance evens out.
        Never more than what the recorder took by its own clock, because an iteration may have had more to do than others."""
        if self._unwatched:
            return min(max(self._plain_ns - int(median(self._unwatched)), 0), self._recorder_ns)
        little = _LITTLE * min((own for own, _ in self._recent), default=0)
        light = [plain for own, plain in self._recent if own <= little]
        if self._recorder_ns <= little or len(light) < _STRETCH:
            return 0
        return max(min(self._plain_ns - int(median(light)), self._recorder_ns), -self._recorder_ns)

    def _plain_step_ns(self) -> float:
        """What a step takes without the recorder."""
        return median(self._unwatched or self._plain)

    def _owe(self, taken_ns: int, plain_ns: int) -> None:
        limit = self._limit or 0.0
        owed = self._owed_ns + taken_ns - limit * plain_ns
        self._owed_ns = min(max(owed, 0.0), _SAVED_OVER * limit * max(plain_ns, self._plain_step_ns()))

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
        budget_ns = limit * self._plain_step_ns()
        allowed, least = budget_ns - self._owed_ns / _SAVED_OVER, _LEAST_FOR_KINDS * budget_ns
        needed, needed_steps = self._plan(allowed, least)
        easy, easy_steps = self._plan(_EASY * allowed, _EASY * least)
        before = (dict(self.intervals), self.watched_every)
        for kind in self._costs:
            self.intervals[kind] = _toward(self.intervals[kind], needed[kind], easy[kind])
        self.watched_every = _toward(self.watched_every, needed_steps, easy_steps)
        self.every_loss, self._losses_every = True, 1
        self.every_loss = self._losses_ns() <= self._most_for_losses()
        while (
            self._losses_ns() > self._losses_every * self._most_for_losses()
            and self._losses_every < MOST_BETWEEN_LOSSES
        ):
            self._losses_every *= 2
        return (self.intervals, self.watched_every) != before

    def _plan(self, allowed_ns: float, least_ns: float) -> tuple[dict[Kind, int], int]:
        """The shortest intervals of kinds and of watched steps, by the doubling above, that fit into what is allowed a step."""
        costs: dict[Kind, float] = {kind: self._cost(kind) for kind in KINDS if kind in self._costs}
        rest, longest, watched = self._rest_ns(), LONGEST * self.options.every, 1
        most = max(_MOST_FOR_WATCHING * allowed_ns, least_ns)
        self.watching_is_dear = rest > most
        while self.steps_can_go_unwatched and rest / watched > most and watched < longest:
            watched = self.options.every if watched < self.options.every else 2 * watched
        spare_ns = max(allowed_ns - rest / watched, least_ns)
        plan: dict[Kind, int] = dict.fromkeys(costs, max(self.options.every, watched))
        while sum(costs[k] / plan[k] for k in plan) > spare_ns:
            open_: list[Kind] = [k for k in plan if plan[k] < longest]
            if not open_:
                break
            dearest = max(open_, key=lambda k: costs[k] / plan[k])
            plan[dearest] *= 2
        return plan, watched


def _toward(now: int, needed: int, easy: int) -> int:
    """An interval grows at once, and shrinks by halves."""
    if now < needed:
        return needed
    return max(now // 2, easy) if now > easy else now


def _mean(values: Collection[int]) -> float:
    """Mean, in which what is far above the others counts for less."""
    most = _OUTLIER * median(values)
    return fmean([min(value, most) for value in values])

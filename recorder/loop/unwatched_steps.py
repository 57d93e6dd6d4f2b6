"""Leave steps unwatched, of a model so small that watching every step would take a multiple of the budget.

Between two watched steps the hooks of modules are out of torch, and the recorder's other parts look away. What stays is one
hook after the optimizer's step, which counts. At every step, or every few where even that costs too much, the loss is read in
backward, and one short row goes to the journal. Of many microbatches it is the loss of the last, where all cost too much. A loss
on a device is sent for and not waited for: its row is made when it has come, mostly a step later.

Something that needs a closer look ends the stretch: a loss that is not finite, within its step; an operator whose derivative is
undefined at what it holds, or a NaN that a loss leaves out, within its step where steps are long enough; a loss that leaves its
band; an evaluation where not every step has one; an optimizer that has not stepped before; an exception.
"""

import functools
import sys
from collections import deque
from collections.abc import Callable
from math import isfinite
from time import perf_counter_ns, time_ns
from typing import Any

import torch
import torch.optim.optimizer as optim
from torch import Tensor, is_grad_enabled, nn
from torch.compiler import is_compiling

from ...schemas.files.unwatched_rows import CAPACITY
from ..script.signal_handlers import raised_by_signal_handler
from ..session.patches import Patches, Removable
from ..session.session import Session
from ..session.watch import Part
from ..tensors.device import LateNumbers
from ..tensors.moments import LATE_DEVICES
from .backward import BackwardWatch
from .forward import ForwardWatch
from .held_optimizers import closure_of
from .optimizers import OptimizerWatch
from .unhooked_forwards import OneShotHook

StepHook = Callable[[torch.optim.Optimizer, tuple[Any, ...], dict[str, Any]], None]

_LOOK_CLOSELY = 6
"""Steps of full detail after a loss that leaves its band."""

ROWS_AT_ONCE = CAPACITY
"""Rows that go to the journal together. Until then they stand in a mapped file, which survives the process."""

_MOST_RISKS = 8
"""Steps that are watched because an operator can lose numbers in them: one that often can, behind a mask, is ordinary."""

_MOST_LOST = 128
"""Steps from the first lost loss on in which such a loss ends a stretch: more than a pass over a rollout makes. A run that is
lost so long stays lost, and is watched no more often than a sound one."""

_MOST_LATE = 32
"""Rows whose losses may be on their way from a device; then the oldest goes without."""

_read: Callable[[Tensor], Any] = torch._C.TensorBase.item
"""As Tensor.item, without what the recorder or the script has put on top of it."""


class _Called(OneShotHook):
    """Hook on a model, in front of its forward."""

    def __init__(self, evaluation: Callable[[nn.Module, tuple[Any, ...]], None]) -> None:
        self._evaluation = evaluation

    def __call__(self, module: nn.Module, args: tuple[Any, ...]) -> None:
        if not is_grad_enabled():
            self._evaluation(module, args)


class UnwatchedSteps(Part):
    """Begins and ends the stretches of steps that are not watched."""

    name = "unwatched-steps"
    writes = ("unwatched_steps",)
    uses = ("backward", "forward", "optimizer")

    _numbers: LateNumbers | None = None
    _place: int | None = None
    """Where the loss of the step in progress will arrive, if it is on a device."""
    _own_ns = 0
    """What reading losses and making rows has taken in this stretch."""
    _backward: tuple[Callable[..., Any], ...] = ()
    """torch.autograd.backward without a wrapper, with the one of unwatched steps, and with that of watched ones."""

    def __init__(
        self, session: Session, forward: ForwardWatch, backward: BackwardWatch, optimizers: OptimizerWatch
    ) -> None:
        super().__init__(session)
        self.forward = forward
        self.backward = backward
        self.optimizers = optimizers
        self._patches: Patches | None = None
        self._out: list[tuple[dict[int, Callable[..., Any]], int, Callable[..., Any]]] = []
        """Hooks that are out of torch: the dictionary each belongs to, its key, and the hook."""
        self._stand_ins: list[Removable] = []
        self._before_step: Any = None
        self._after_step: Any = None
        """Handles of the hooks around the steps of optimizers."""
        self._watching: StepHook = lambda *_: None
        self._expected: dict[int, torch.optim.Optimizer] = {}
        """Optimizers that step once in each iteration, by identity; they are held here, so that it stays theirs."""
        self._only: torch.optim.Optimizer | None = None
        """The one that steps, while no other does."""
        self._stepped: set[int] = set()
        self._seen = session.position.step
        self._evaluations = 0
        """Evaluation forwards in the last watched step."""
        self._evaluates_always = False
        self._neighbours = True
        """Whether the last two watched steps follow each other."""
        self._first = 0
        self._left = 0
        """Steps of this stretch to come."""
        self._apart = self._to_row = 1
        """Steps from one row to the next, and how many of them are still to end."""
        self._last_row = 0
        """Step of the last row."""
        self._began = 0
        self._loss: float | None = None
        """Of the step in progress."""
        self._late: deque[tuple[int, int, int, int | None]] = deque()
        """Rows whose losses are on their way: step, time, steps, place."""
        self._pass_by = 0
        """Losses that are not read before the next one that is."""
        self._rows: list[tuple[int, int, int, float | None]] = []
        """Step, time, steps and loss of those not written yet."""
        self._said = False
        """Whether the mapped file says that steps go unwatched."""
        self._looks_at_risks = False
        """Whether operators that can lose numbers in backward are looked at in each step."""
        self._risks_left = _MOST_RISKS
        self._closer = False
        """Whether the next step is to be looked at closely."""
        self._lost_since: int | None = None
        """Step of the first of the losses in a row that were read here and not finite."""
        backward.passes_by = self._read_loss
        forward.quiet.on_mode = self._mode_set

    def install(self, patches: Patches) -> None:
        """Have torch call the optimizer room around the step of every optimizer, where steps are watched."""
        self._patches = patches
        guarded, optimizers = self.session.guard.guarded, self.optimizers
        before_step = guarded(optimizers.name, optimizers.before_step)
        after_step = guarded(optimizers.name, optimizers.after_step)
        look = self.guarded(self._try_unwatched)

        def watching(optimizer: torch.optim.Optimizer, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            after_step(optimizer, args, kwargs)
            if not is_compiling() and self.session.position.step != self._seen:
                look(optimizer, args, kwargs)

        self._watching = watching
        self._before_step = optim.register_optimizer_step_pre_hook(before_step)
        self._after_step = optim.register_optimizer_step_post_hook(watching)
        patches.handles([self._before_step, self._after_step])
        if self.backward.wrapped is not None:
            self._backward = self._wrappers(*self.backward.wrapped)

    def _wrappers(
        self, plain: Callable[..., Any], wrapped: Callable[..., Any]
    ) -> tuple[Callable[..., Any], Callable[..., Any], Callable[..., Any]]:
        """The middle one does what the last one comes to where steps go unwatched. Whatever is called there has left the caches
        by the next step, so that each function costs some microseconds."""
        read, guard, position = self._read_loss, self.session.guard, self.session.position

        @functools.wraps(plain)
        def backward(*args: Any, **kwargs: Any) -> Any:
            if is_compiling() or not guard.alive:
                return plain(*args, **kwargs)
            if not position.unwatched:  # the script has put something over this wrapper, which so stayed in place
                return wrapped(*args, **kwargs)
            began = perf_counter_ns()
            try:
                loss = args[0] if args else kwargs.get("tensors")
                if not isinstance(loss, Tensor):
                    loss = loss[0] if loss is not None and len(loss) == 1 else None
                unwatched = read(loss)
            except Exception as e:
                self._broken_off(e)
                if raised_by_signal_handler(e):
                    raise
                unwatched = True
            self._own_ns += perf_counter_ns() - began
            return plain(*args, **kwargs) if unwatched else wrapped(*args, **kwargs)

        return plain, backward, wrapped

    # -- the beginning ------------------------------------------------------------------------------------------------------

    def _try_unwatched(self, optimizer: torch.optim.Optimizer, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """An iteration was over: may the next ones go unwatched?"""
        session = self.session
        self._seen = session.position.step
        before, self._evaluations = self._evaluations, session.step_row.evaluations
        neighbours, self._neighbours = self._neighbours, True
        if not session.budget.watching_is_dear:
            return
        possible = not callable(closure_of(args, kwargs)) and self._possible(optimizer)
        session.budget.backwards = max(session.position.last_microbatches, 1)
        session.budget.steps_can_go_unwatched = possible
        count, apart = session.budget.unwatched_steps(session.position.step)
        if count > 1 and possible:
            # two steps that lie an epoch apart may both follow its evaluation
            self._evaluates_always = min(before, self._evaluations) > 0 and (neighbours or self._evaluates_always)
            self._begin(count, apart)
        else:
            self._expected = {}  # nothing of the script's is kept alive while its steps are watched

    def _possible(self, optimizer: torch.optim.Optimizer) -> bool:
        """Whether an iteration consists of what is counted here, and nothing else was asked for."""
        session = self.session
        self._expected = {id(o): o for o in self.optimizers.stepped_together()}
        dynamo = sys.modules.get("torch._dynamo.utils")
        return (
            self._patches is not None
            and id(optimizer) in self._expected
            and session.alone
            and session.guard.mark is None
            and session.options.profile == "off"
            and session.options.on_nonfinite in {"record", "capture"}
            and not (self.backward.multiplied or session.position.in_backward or session.position.pending)
            and len(on := {p.device for o in self._expected.values() for g in o.param_groups for p in g["params"]}) == 1
            and all(device.type == "cpu" or device.type in LATE_DEVICES for device in on)
            # compiled code that was made with hooks in place is made again without them
            and (dynamo is None or not dynamo.counters["stats"].get("unique_graphs", 0))
        )

    def _begin(self, count: int, apart: int) -> None:
        session, patches = self.session, self._patches
        self.optimizers.go_unwatched()
        self._first, self._left = session.position.step, count
        self._last_row = session.position.step - 1
        if not self._said:
            self._said = True
            # a row of no step: whoever finds no other knows that the breadcrumb counts some
            session.position.begin_rows(self._last_row, time_ns())
        self._apart = apart
        self._closer = False
        self._looks_at_risks = (
            apart == 1
            and self._risks_left > 0
            and (looks := self.backward.risk_paths.looks) > 0
            and session.budget.may_look(looks)
        )
        self._stepped.clear()
        self._only = next(iter(self._expected.values())) if len(self._expected) == 1 else None
        self._loss = self._place = None
        for stand_in in patches.stand_ins if patches is not None else ():
            self._stand_ins += stand_in()
        if patches is not None:
            patches.rest()
        out = (*patches.module_hooks, *patches.resting_hooks) if patches is not None else ()
        for handle in (*out, self._before_step):
            hooks = handle.hooks_dict_ref()
            if hooks is not None and handle.id in hooks:
                self._out.append((hooks, handle.id, hooks.pop(handle.id)))
        if apart == 1 and not self._evaluates_always:
            called = _Called(self._evaluation)
            models = [model for root in session.catalogue.roots if (model := root.ref()) is not None]
            self._stand_ins += [model.register_forward_pre_hook(called) for model in models]
        self._after_each_step(self._count)
        session.look_away()
        self._begin_run()
        self._own_ns = 0
        self._began = perf_counter_ns()

    def _after_each_step(self, hook: StepHook) -> None:
        """Change what torch calls after a step. Only a value of its dictionary changes, which it may be going through."""
        hooks = self._after_step.hooks_dict_ref()
        if hooks is not None and self._after_step.id in hooks:
            hooks[self._after_step.id] = hook

    # -- while it lasts -----------------------------------------------------------------------------------------------------

    def _begin_run(self) -> None:
        """The next row will be that of the last of the next steps."""
        budget = self.session.budget
        self._pass_by = 0 if budget.every_loss else budget.backwards - 1
        self._to_row = to_row = min(self._apart, self._left)
        self._left -= to_row
        self._put_backward(1 if to_row == 1 else 0)

    def _put_backward(self, which: int) -> None:
        """Have the script call one of the three, unless somebody has put something over the recorder's wrapper."""
        if torch.autograd.backward in self._backward:
            torch.autograd.backward = self._backward[which]

    def _count(self, optimizer: torch.optim.Optimizer, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """After the step of an optimizer; of one that is no other's, what is done for most steps stands here."""
        if self._to_row > 2 and optimizer is self._only:
            self._to_row -= 1
            self.session.position.count_step()
            return
        try:
            if id(optimizer) not in self._expected:
                self.end()
                self._watching(optimizer, args, kwargs)  # its first step counts as well, though it began unwatched
                return
            self._step_ended(optimizer)
        except Exception as e:
            self._broken_off(e)
            if raised_by_signal_handler(e):
                raise

    def _broken_off(self, error: Exception) -> None:
        """Watch again after an exception of the recorder's own, or of a signal handler of the script's."""
        self.end(write=False)
        if not raised_by_signal_handler(error):
            self.session.guard.fault(self.name, error)

    def _step_ended(self, optimizer: torch.optim.Optimizer) -> None:
        if optimizer is not self._only:
            again = id(optimizer) in self._stepped
            self._stepped.add(id(optimizer))
            if again:
                self._stepped = {id(optimizer)}  # the iteration before was over without the others
            elif len(self._stepped) < len(self._expected):
                return
            else:
                self._stepped.clear()
        self._to_row = to_row = self._to_row - 1
        if to_row > 0:
            self.session.position.count_step()
            if to_row == 1:
                self._put_backward(1)
            return
        began = perf_counter_ns()
        self._add_row(self.session.position.count_step(), time_ns())
        if len(self._rows) >= ROWS_AT_ONCE:
            self._write_rows()
        if self._left <= 0 or self._closer:
            self._own_ns += perf_counter_ns() - began
            self.end()
            return
        if self._apart == 1 and self.session.budget.every_loss:
            self._left -= 1
            self._to_row = 1  # and the wrapper is in already
        else:
            self._begin_run()
        self._own_ns += perf_counter_ns() - began

    def _add_row(self, step: int, now_ns: int) -> None:
        """The row of the step that was counted last, which tells of those before it that have none."""
        steps, self._last_row = step - self._last_row, step
        if self._late or self._place is not None:
            self._late.append((step, now_ns, steps, self._place))
            self._take_arrived(_MOST_LATE)
        else:
            self._keep((step, now_ns, steps, self._loss))
        self._loss = self._place = None

    def _keep(self, row: tuple[int, int, int, float | None]) -> None:
        self.session.position.keep_row(*row)
        self._rows.append(row)

    def _take_arrived(self, most: int) -> None:
        """Make the rows whose losses have come. At most so many others wait on; older ones have none."""
        while self._late:
            step, now_ns, steps, place = self._late[0]
            loss = self._numbers.arrived(place) if self._numbers is not None and place is not None else None
            if loss is None and place is not None and len(self._late) <= most:
                return
            self._late.popleft()
            self._keep((step, now_ns, steps, loss))
            if loss is not None and (self._just_lost(loss) or (isfinite(loss) and self.backward.left_band(loss))):
                self._closer = self._look_closely()

    def _look_closely(self) -> bool:
        return self.session.budget.full_detail_from(self.session.position.step + 1, _LOOK_CLOSELY, "loss")

    def _write_rows(self) -> None:
        if self._rows:
            rank, rows, self._rows = self.session.catalogue.rank, self._rows, []
            self.session.rows.write_at_once(
                [{"rank": rank, "step": s, "time_ns": t, "steps": n, "loss": loss} for s, t, n, loss in rows]
            )

    def _read_loss(self, loss: Tensor | None) -> bool:
        """The script's backward begins; returns whether it goes unwatched too."""
        if self._pass_by:
            self._pass_by -= 1
            return True
        if loss is None or loss.numel() != 1 or not loss.is_floating_point():
            return True
        if loss.device.type in LATE_DEVICES:
            if self._numbers is None or self._numbers.device != loss.device:
                self._take_arrived(0)
                self._numbers = LateNumbers(loss.device)
            self._place = self._numbers.send(loss)
            return True
        if loss.device.type != "cpu":
            return True
        number = _read(loss)
        if self._just_lost(number) or (self._looks_at_risks and self._at_risk(loss)):
            self.end()
            self.forward.was_unwatched(self.backward.forward_ended_at(loss))
            return False
        self._loss = number
        if isfinite(number) and self.backward.left_band(number):
            self._closer = self._look_closely()
        return True

    def _just_lost(self, number: float) -> bool:
        """Whether a loss is not finite, and has not been so for long."""
        if isfinite(number):
            self._lost_since = None
            return False
        step = self.session.position.step
        self._lost_since = step if self._lost_since is None else self._lost_since
        return step - self._lost_since < _MOST_LOST

    def _at_risk(self, loss: Tensor) -> bool:
        """Whether an operator of the graph can lose numbers in this backward; one that always can is soon left alone."""
        if not self.backward.at_risk(loss):
            return False
        self._risks_left -= 1
        return True

    def _evaluation(self, module: nn.Module, args: tuple[Any, ...]) -> None:
        """A forward without gradients begins."""
        if not is_compiling() and self.session.position.unwatched:
            self.end()
            self.forward.begins(module, args)  # torch has listed its hooks for this call already

    def _mode_set(self) -> None:
        """The script has called train or eval: it evaluates, or has done so."""
        if self.session.position.unwatched and not self._evaluates_always:
            self.end()

    # -- the end --------------------------------------------------------------------------------------------------------------

    def end(self, *, write: bool = True) -> None:
        """Watch again from here on; nothing happens where every step is watched. Without ``write`` the steps that were counted
        last are told of by no row."""
        session = self.session
        if not session.position.unwatched:
            return
        took_ns = perf_counter_ns() - self._began
        self._put_backward(2)
        self._after_each_step(self._watching)
        for stand_in in self._stand_ins:
            stand_in.remove()
        self._stand_ins.clear()
        for hooks, key, hook in self._out:
            hooks[key] = hook
        self._out.clear()
        if self._patches is not None:
            self._patches.wake()
        if write and session.position.step - 1 > self._last_row:
            self._add_row(session.position.step - 1, time_ns())
        self._take_arrived(0)
        self._write_rows()
        count = session.position.step - self._first
        self.optimizers.was_unwatched(self._expected.values(), count)
        self._expected = {}
        self._only = None
        self._seen = session.position.step
        self._neighbours = False
        session.look_again()
        looks = self.backward.risk_paths.looks if self._looks_at_risks else 0
        session.budget.went_unwatched(session.position.step, count, self._apart, took_ns, looks, self._own_ns)

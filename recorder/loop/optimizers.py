"""Optimizers: gradients before the step, weights and their change after it, and where one iteration ends.

An iteration ends when every optimizer in use has stepped; when a gradient was made but cleared without a step; or when a
GradScaler left the step out. Several backward passes before the step are its microbatches.
"""

import sys
from collections.abc import Callable, Iterable, Sequence
from time import perf_counter_ns
from types import CodeType
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ...schemas import Phase
from ..script.wrappers import local
from ..session.patches import Patches
from ..session.registry import ParameterEntry
from ..session.session import Session
from ..session.watch import Part
from ..tensors.device import Late, join_when_ready
from ..tensors.gradient_norms import carried_norm, gradients_of
from .held_optimizers import HeldOptimizers, TrackedOptimizer, closure_of, holds
from .param_group_rows import GroupRows
from .parameter_groups import Rosters
from .parameter_rows import ParameterRows
from .weight_updates import Parameters, Sampled

_HOOKED_STEP = next(
    (c for c in torch.optim.Optimizer.profile_hook_step.__code__.co_consts if isinstance(c, CodeType)), None
)
"""What torch puts around every optimizer's step to call the hooks."""

_MOST_MICROBATCHES = 256
"""Backward passes without a step or a cleared gradient before they count as iterations of their own."""


class ManualGradients(NamedTuple):
    """What the script's own update is made of."""

    norm: "float | Late | None"
    parameters: Parameters
    sample: Sampled | None
    returned: bool
    """By torch.autograd.grad: the next forward is another iteration, whatever lies in the tensors' grad."""


class ClosedIteration(NamedTuple):
    """An iteration that is over, as far as one can tell."""

    seq: int
    stepped: set[int]


class OptimizerWatch(Part):
    """Where iterations end: by steps of optimizers, by zero_grad, by the script's own word."""

    name = "optimizer"
    writes = (
        "steps",
        "param_groups",
        "norm_parts",
        "tensors:parameter",
        "tensors:gradient",
        "tensors:update",
        "tensor_stats:parameter",
        "tensor_stats:gradient",
        "tensor_stats:update",
        "events:optimizer-found",
    )

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self._held = HeldOptimizers(session)
        self._stepped: set[int] = set()
        self._just_closed: ClosedIteration | None = None
        """The iteration that the last step has ended, until something of another one begins."""
        self._cleared = False
        self._called = False
        """Whether a module has been called for training since the last backward."""
        self._halfway = False
        """Whether a wrapper has cleared gradients within this iteration: it may step after a second backward."""
        self._inside: dict[int, TrackedOptimizer] = {}
        self.rows = ParameterRows(session)
        self._rosters = Rosters(session)
        self._group_rows = GroupRows(session)
        self.in_step = False
        self.stepping: TrackedOptimizer | None = None
        """Whose step is in progress, or was the last."""
        self._parts: list[int] = []
        """Optimizers whose step is a part of that one."""
        self._unstepped_norm: float | Late | None = None
        self.bare_tensors: Callable[[Tensor], list[ParameterEntry]] = lambda _: []
        """Entries of what a loss depends on that no module and no optimizer holds."""
        self._own: ManualGradients | None = None
        """Gradients of this iteration that the script itself will apply: it has no optimizer."""

    def install(self, patches: Patches) -> None:
        """Look for optimizers and for cleared gradients; loop/unwatched_steps.py puts in the hooks of steps."""
        found, cleared = self.guarded(self.track), self.guarded(self.zero_grad_called)
        optimizer = torch.optim.Optimizer
        patches.around(optimizer, "__init__", after=lambda _note, _result, made, *_, **__: found(made))
        patches.around(optimizer, "zero_grad", before=lambda mine, *_, **__: cleared(mine), rests=True)
        patches.around(torch.nn.Module, "zero_grad", before=lambda *_, **__: cleared(None), rests=True)

    def track(self, optimizer: torch.optim.Optimizer) -> TrackedOptimizer:
        """The record of an optimizer that steps itself, new or known."""
        return self._held.track(optimizer, in_step=self.in_step)

    def tracked(self, optimizer: torch.optim.Optimizer) -> TrackedOptimizer:
        """The record of an optimizer, or of the one inside it that steps."""
        return self.track(self._held.inner(optimizer))

    def alive(self) -> list[torch.optim.Optimizer]:
        """Optimizers that still exist, in the order in which they were found."""
        return self._held.alive()

    def steps_of(self, optimizer: torch.optim.Optimizer) -> int:
        """How often it has stepped."""
        return self.tracked(optimizer).steps

    def count_on_from(self, step: int) -> None:
        """The iteration that is just over was this step, by an earlier count."""
        for held in self._held:
            if held.last_step >= self.session.position.step - 1:
                held.last_step = step - (self.session.position.step - held.last_step)
        self.session.position.step = step

    # -- steps ------------------------------------------------------------------------------------------------------------

    def before_step(self, optimizer: torch.optim.Optimizer, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Global step pre-hook."""
        session = self.session
        if self.in_step and self._is_part(optimizer):
            self._parts.append(id(optimizer))
            self._held.forget(lambda other: other is optimizer)
            return
        held = self.track(optimizer)
        if held.steps == 0:
            self._held.forget(lambda other: other is not optimizer and holds(other, optimizer))
            session.budget.full_detail(
                1, "optimizer"
            )  # what it moves tells whether it goes on with the training before
        if session.position.in_backward:
            self._inside[held.id] = held  # stepped by a hook inside backward: the step is complete when that returns
            return
        session.start()
        self._cleared = False
        self.in_step, self.stepping = True, held
        self._parts.clear()
        if held.steps == 0 and self._just_closed is not None:
            self._reopen(self._just_closed)
        if held.id in self._stepped:
            self._advance()  # it steps again, so the iteration before was over
        session.signals.step_begins.emit()
        session.position.leave_breadcrumb(Phase.OPTIMIZER, -1)
        self._rosters.refresh(self._held.numbered())
        closure = closure_of(args, kwargs)
        self._group_rows.notice_lr(held.id, optimizer)
        held.parameters = self._rosters.parameters_of(held.id, optimizer)
        held.grad_norm = None if callable(closure) else self.rows.gradients(held.parameters)
        session.signals.gradients.emit(held.grad_norm, False, False)
        held.sample = self.rows.sample(held.parameters)
        held.began = perf_counter_ns()

    def after_step(self, optimizer: torch.optim.Optimizer, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Global step post-hook."""
        session = self.session
        if id(optimizer) in self._parts:
            self._parts.remove(id(optimizer))
            return
        held = self.track(optimizer)
        if session.position.in_backward:
            return
        self.in_step = False
        if held.began:
            session.step_row.clock["optimizer"] += perf_counter_ns() - held.began
        closure = closure_of(args, kwargs)
        if callable(closure):
            held.grad_norm = self.rows.gradients(held.parameters)
        held.steps += 1
        session.step_row.log_call("s")
        change = self.rows.weights(held.parameters, held.sample)
        self._group_rows.add(held.id, optimizer, change, self._rosters.regrouped)
        self._finish(held, stepped=True)

    def stepped_together(self) -> list[torch.optim.Optimizer]:
        """Optimizers that stepped in the iteration that the last step has ended; none where something of another has begun."""
        ids = self._just_closed.stepped if self._just_closed is not None else set()
        return [optimizer for id_, optimizer in self._held.numbered() if id_ in ids]

    def go_unwatched(self) -> None:
        """The next steps are not watched."""
        self._just_closed = None
        self._called = self._cleared = False
        for held in self._held:  # whoever clears gradients meanwhile is not seen
            held.carried, held.carried_parts, held.zeroed, held.looked = None, {}, False, -1

    def was_unwatched(self, optimizers: Iterable[torch.optim.Optimizer], count: int) -> None:
        """These have made ``count`` steps that were not watched."""
        for held in map(self.track, optimizers):
            held.steps += count
            held.last_step = self.session.position.step - 1
            held.carried, held.carried_parts, held.looked = None, {}, -1

    def _is_part(self, optimizer: torch.optim.Optimizer) -> bool:
        """Whether the step in progress makes this one, of parameters of its own: as Lookahead does, or a class whose step calls
        that of its base."""
        frame, depth = sys._getframe(), 0  # a step that raised has left no other trace of its end
        while frame is not None:
            depth += frame.f_code is _HOOKED_STEP
            frame = frame.f_back
        if depth < 2 or self.stepping is None:
            return False
        whole = {id(p) for p, _, group in self.stepping.parameters if group >= 0}
        return all(id(p) in whole for group in optimizer.param_groups for p in group["params"])

    def skipped_by_scaler(self, optimizer: torch.optim.Optimizer, steps_before: int) -> None:
        """GradScaler.step has returned: if the optimizer did not step, the scaler found non-finite gradients."""
        optimizer = self._held.inner(optimizer)
        held = self.track(optimizer)
        if held.steps != steps_before or self.session.position.unwatched:  # unwatched steps are added when they end
            return
        self._rosters.refresh(self._held.numbered())
        held.grad_norm = self.rows.gradients(self._rosters.parameters_of(held.id, optimizer))
        self.session.signals.gradients.emit(held.grad_norm, False, True)
        self._group_rows.add(held.id, optimizer, {}, self._rosters.regrouped)
        self._finish(held, stepped=False, skipped=True)

    def _finish(self, held: TrackedOptimizer, *, stepped: bool, skipped: bool = False) -> None:
        session = self.session
        held.last_step = session.position.step
        if held.carried_parts:
            session.step_row.norm_parts["carried_grad_norm"] = held.carried_parts
        session.write_step_row(
            optimizer_id=held.id, stepped=stepped, skipped=skipped, grad_norm=held.grad_norm, carried=held.carried
        )
        held.carried, held.carried_parts, held.zeroed = None, {}, False
        held.grad_norm, held.sample, held.parameters = None, None, []
        self._stepped.add(held.id)
        alive = [h for h in self._held if h.ref() is not None]
        in_use = {h.id for h in alive if h.last_step >= session.position.step - 1 and h.last_step >= 0}
        if session.position.step == session.attempt.first_step:
            in_use |= {h.id for h in alive if h.last_step < 0}
        if in_use <= self._stepped:
            closed = ClosedIteration(session.position.seq, set(self._stepped))
            self._advance()
            self._just_closed = closed

    def _reopen(self, closed: ClosedIteration) -> None:
        """An optimizer steps for the first time right after those before it: it has joined their iteration."""
        self._just_closed = None
        self._stepped = closed.stepped
        self.session.position.rejoin_iteration(closed.seq)

    def _advance(self) -> None:
        self._stepped.clear()
        self._halfway = False
        self._just_closed = None
        self.session.end_iteration()

    # -- iterations without a step ------------------------------------------------------------------------------------------

    def before_backward(self, loss: Tensor | None) -> None:
        """A backward begins: what gradients are there already, and is this a new iteration?

        Not where gradients were cleared and no module has been called since the last backward: several losses of one forward,
        taken one by one.
        """
        if self._called or not (self._cleared and self.session.catalogue.roots):
            self.new_iteration()
        if not self._held and loss is not None and not self.session.catalogue.roots:
            self._rosters.bare = self.bare_tensors(loss)
        step = self.session.position.step
        for held in self._held:
            # what has stepped in the iteration before may hold gradients of a loss that was another optimizer's
            if held.carried is None or (held.looked < step and held.last_step == step - 1):
                optimizer = held.ref()
                if optimizer is not None:
                    gradients = [] if held.zeroed else gradients_of(optimizer)
                    held.carried, held.carried_parts = carried_norm(gradients, self.session.catalogue.rank)
                    held.looked = step
            held.zeroed = False

    def zero_grad_called(self, optimizer: torch.optim.Optimizer | None) -> None:
        """zero_grad is about to clear gradients, of one optimizer or (None) of a module."""
        session = self.session
        if session.position.unwatched:
            return
        session.step_row.log_call("z")
        session.step_row.zero_grads += 1
        wraps = optimizer is not None and holds(optimizer)
        optimizer = None if optimizer is None else self._held.inner(optimizer)
        if self.in_step:
            return  # the closure of LBFGS and kin: one step, however often it clears
        if wraps and session.position.pending and not self._halfway:
            self._halfway = True
        elif session.position.pending and not self._cleared and not session.position.in_backward:
            others = [
                h
                for h in self._held
                if h.ref() is not None and h.ref() is not optimizer and h.last_step >= session.position.step - 1 >= 0
            ]
            if optimizer is None or not others:
                if optimizer is not None:
                    self._rosters.refresh(self._held.numbered())
                    norm = self.rows.gradients(self._rosters.parameters_of(self.track(optimizer).id, optimizer))
                else:
                    norm = self._norm_left()
                session.signals.gradients.emit(norm, False, False)
                if norm:  # gradients were there, and they go without a step
                    self._cleared = True
                    self._unstepped_norm = norm
        for held in self._held:
            if optimizer is None or held.ref() is optimizer:
                # a module may be a part of what an optimizer holds: what is left then is looked at when the next backward begins
                held.carried, held.carried_parts, held.zeroed = None, {}, optimizer is not None

    def before_forward(self) -> None:
        """A model is called for training."""
        self._called = True
        self.new_iteration()

    def new_iteration(self) -> None:
        """A training forward or a backward begins, or the loader hands out a batch: an iteration left open is over."""
        session = self.session
        self._just_closed = None
        if self._cleared:
            self._cleared = False
            self._end_unstepped(self._unstepped_norm)
        elif self.in_step or not session.position.pending:
            return
        elif (self._own is not None and self._own.returned) or (not self._held and self._gradients_are_gone()):
            self._end_unstepped(None)
        elif session.position.microbatch >= _MOST_MICROBATCHES and not any(h.steps for h in self._held):
            self._end_unstepped(self._norm_left())

    def end_iteration(self) -> None:
        """The script says that its iteration is over, and no optimizer has stepped since it said so last."""
        self.new_iteration()
        if self.session.position.pending:
            self._end_unstepped(self._norm_left())

    def next_batch(self) -> None:
        """The DataLoader hands out a batch."""
        if self.session.position.unwatched:
            return
        self.new_iteration()
        if self._stepped:
            self._advance()

    def close(self, *, completed: bool) -> None:
        """The script is at its end; not ``completed`` if an exception broke the iteration off."""
        if self._cleared or self.session.position.pending:
            norm = self._unstepped_norm if self._cleared else self._norm_left()
            self._cleared = False
            self._end_unstepped(norm, completed=completed)

    def _norm_left(self) -> "float | Late | None":
        """Norm of the gradients that no optimizer has used."""
        if self._own is not None:
            return self._own.norm
        self._rosters.refresh(self._held.numbered())
        return self.rows.gradients(self._rosters.all_parameters(self._held.numbered()))

    def _gradients_are_gone(self) -> bool:
        """Whether the script, which has no optimizer, has cleared the gradients by hand."""
        gradients = [
            local(p.grad) for p, _, _ in self._rosters.all_parameters(self._held.numbered()) if p.grad is not None
        ]
        if not gradients:
            return bool(self.session.catalogue.roots or self._rosters.bare)
        smallest = min(gradients, key=lambda g: g.numel())
        return smallest.device.type == "cpu" and not smallest.any()

    def _end_unstepped(self, norm: "float | Late | None", *, completed: bool = True) -> None:
        own, self._own = self._own, None
        if own is not None:
            norm = own.norm
            self.rows.weights(own.parameters, own.sample)
        carried = [h.carried for h in self._held if h.carried is not None]
        for held in self._held:
            optimizer = held.ref()
            if optimizer is not None:
                self._group_rows.add(held.id, optimizer, {}, self._rosters.regrouped)
            if held.carried_parts:
                self.session.step_row.norm_parts["carried_grad_norm"] = held.carried_parts
            held.carried, held.carried_parts = None, {}
        self.session.write_step_row(
            optimizer_id=None,
            stepped=False,
            completed=completed,
            grad_norm=norm,
            carried=join_when_ready(carried, max) if carried else None,
        )
        self._advance()

    def after_backward(self) -> None:
        """A backward has returned: steps that hooks made inside it count now, all as one."""
        self._called = False
        inside, self._inside = self._inside, {}
        for held in inside.values():
            held.steps += 1
            held.last_step = self.session.position.step
            self._stepped.add(held.id)
            optimizer = held.ref()
            if optimizer is not None:
                self._group_rows.add(held.id, optimizer, {}, self._rosters.regrouped)
        if inside:
            self._finish(next(iter(inside.values())), stepped=True)
        elif not self._held:
            parameters = self._rosters.all_parameters(self._held.numbered())
            gradients = [p.grad for p, _, _ in parameters]
            if any(g is not None for g in gradients):
                self._note_own(parameters, gradients, returned=False)

    def gradients_from_autograd_grad(self, parameters: Parameters, gradients: Sequence[Tensor | None]) -> None:
        """torch.autograd.grad has returned gradients of parameters that no optimizer holds."""
        self._note_own(parameters, gradients, returned=True)

    def _note_own(
        self,
        parameters: Parameters,
        gradients: Sequence[Tensor | None],
        *,
        returned: bool,
    ) -> None:
        session = self.session
        parameters = [(p, entry, 0) for p, entry, _ in parameters]
        norm = self.rows.gradients(parameters, gradients)
        session.signals.gradients.emit(norm, False, False)
        # a bare tensor may be replaced by its update: holding it would double what lives
        kept = [p for p in parameters if p[1].module_id is not None]
        self._own = ManualGradients(norm, kept, self.rows.sample(kept), returned)

"""What is done about a lost step, where the user asked for more than a record: the step is left out, or the run ended.

A step is left out by taking the gradients away while the optimizer steps: it then finds nothing to do, and schedulers and
scalers, which look whether it was called, see nothing unusual. An optimizer with a closure computes its gradients while it
steps; its weights and state are put back afterwards.
"""

from collections import OrderedDict
from collections.abc import Callable
from typing import Any, cast

import torch
import torch.optim.optimizer as optim
from torch import Tensor

from ...schemas import STOPPED
from ..base.terminal import warn
from ..loop.held_optimizers import closure_of
from ..session.patches import Patches
from ..session.session import Session
from ..session.signals import Signals
from .rollback import Rollback, plan_of

_Snapshot = tuple[list[tuple[Tensor, Tensor]], dict[Any, dict[str, Any]]]


class Policy:
    """The option on_nonfinite, as far as it changes the training: skip and stop."""

    def __init__(self, session: Session, optimizers: Callable[[], list[torch.optim.Optimizer]]) -> None:
        self.session = session
        self.optimizers = optimizers
        plan = plan_of(session.options.on_nonfinite)
        self.rollback = Rollback(session, self.checkpoint, optimizers) if plan is not None else None
        self.skips = session.options.on_nonfinite == "skip" or (plan is not None and plan[0] == "restore")
        self.stops = session.options.on_nonfinite == "stop"
        self.must_know = self.skips or self.stops or self.rollback is not None
        """Whether a value on a device is waited for."""
        self.bad_gradients = False
        """Set when the gradients of the step that is about to be made were found not finite."""
        self._taken: list[tuple[Tensor, Tensor]] = []
        self._before: _Snapshot | None = None

    def listen(self, signals: Signals) -> None:
        """Look between steps, where a good state may have to be put back."""
        if self.rollback is not None:
            signals.step_ends.connect("rollback", self.rollback.between_steps)

    def install(self, patches: Patches) -> None:
        """Hooks of optimizers, where steps are to be left out."""
        if not self.skips:
            return
        guarded = self.session.guard.guarded
        before = optim.register_optimizer_step_pre_hook(guarded("skip", self._before_step))
        after = optim.register_optimizer_step_post_hook(guarded("skip", self._after_step))
        patches.handles([before, after])
        # ahead of the recorder's own, which writes the row of the step
        cast("OrderedDict[int, Any]", optim._global_optimizer_post_hooks).move_to_end(after.id, last=False)

    def lost(self) -> None:
        """A loss or a gradient of this step is lost. Raises SystemExit where the run is to end."""
        if self.stops:
            self.stop()
        if self.rollback is not None:
            self.rollback.lost()

    def stop(self) -> None:
        """End the run. Raises SystemExit, which the script's own clean-up code sees as it would see sys.exit()."""
        warn(
            "stopped",
            f"step {self.session.position.step} is not finite: stopped, as --on-nonfinite stop wants it; exit status {STOPPED}",
        )
        self.session.rows.event(
            "stopped", f"the run was ended at step {self.session.position.step} by --on-nonfinite stop"
        )
        raise SystemExit(STOPPED)

    def checkpoint(self) -> dict[str, Any]:
        """Weights of all models, states of all optimizers, random states: what is needed to go on from here."""
        models = {
            root.model: module.state_dict()
            for root in self.session.catalogue.roots
            if (module := root.ref()) is not None
        }
        random = {"cpu": torch.get_rng_state()}
        if torch.cuda.is_initialized():
            random["cuda"] = torch.cuda.get_rng_state()
        return {
            "step": self.session.position.step,
            "models": models,
            "optimizers": [optimizer.state_dict() for optimizer in self.optimizers()],
            "random": random,
        }

    # -- leaving a step out ---------------------------------------------------------------------------------------------------

    def _before_step(self, optimizer: torch.optim.Optimizer, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Runs after the recorder's own pre-hook, which has looked at the gradients."""
        bad, self.bad_gradients = self.bad_gradients, False
        if self.session.position.in_backward:
            return
        if callable(closure_of(args, kwargs)):
            self._before = _snapshot(optimizer)
        elif bad:
            self._taken = [
                (p, p.grad) for group in optimizer.param_groups for p in group["params"] if p.grad is not None
            ]
            for parameter, _ in self._taken:
                parameter.grad = None
            self._say()

    def _after_step(self, optimizer: torch.optim.Optimizer, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Runs before the recorder's own post-hook writes the step."""
        del args, kwargs
        for parameter, gradient in self._taken:
            parameter.grad = gradient
        self._taken = []
        before, self._before = self._before, None
        self.bad_gradients = False
        if before is not None and not all(bool(torch.isfinite(p).all()) for p, _ in before[0]):
            _put_back(optimizer, before)
            self._say()

    def _say(self) -> None:
        session = self.session
        session.step_row.facts["stepped"] = False
        session.rows.event(
            "step-skipped", f"the optimizer step of step {session.position.step} was left out: it is not finite"
        )


def _snapshot(optimizer: torch.optim.Optimizer) -> _Snapshot:
    weights = [(p, p.detach().clone()) for group in optimizer.param_groups for p in group["params"]]
    state = {key: {name: _copy(value) for name, value in of.items()} for key, of in optimizer.state.items()}
    return weights, state


def _put_back(optimizer: torch.optim.Optimizer, before: _Snapshot) -> None:
    weights, state = before
    with torch.no_grad():
        for parameter, value in weights:
            parameter.copy_(value)
    optimizer.state.clear()
    optimizer.state.update(state)


def _copy(value: Any) -> Any:
    """Tensors cloned, lists shallowly copied: optimizers append to lists and replace what is in them."""
    if isinstance(value, Tensor):
        return value.clone()
    return list(value) if isinstance(value, list) else value

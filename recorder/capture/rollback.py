"""The way back: weights and optimizer states of a recent good step, and what is done with them after lost losses in a row.

Copies are taken between steps, on the CPU, as often as takes a hundredth of the time. ``rollback`` ends the run with the last
good one saved as an ordinary checkpoint; ``restore`` leaves lost steps out and puts it back before the script's next batch.
"""

from collections.abc import Callable
from time import perf_counter_ns
from typing import Any

import torch
from torch import Tensor

from ...schemas import STOPPED
from ..base.terminal import warn
from ..session.session import Session

FILE = "rollback.pt"

_SHARE = 0.01
"""Of the time that copying may take."""

_LEAST_STEPS = 10


def plan_of(option: str) -> tuple[str, int] | None:
    """``rollback`` or ``restore`` and how many lost steps in a row, from the option on_nonfinite; None for the others."""
    kind, _, count = option.partition(":")
    return (kind, int(count or 3)) if kind in {"rollback", "restore"} else None


class Rollback:
    """Good states of one process, and the count of lost steps."""

    def __init__(
        self,
        session: Session,
        checkpoint: Callable[[], dict[str, Any]],
        optimizers: Callable[[], list[torch.optim.Optimizer]],
    ) -> None:
        plan = plan_of(session.options.on_nonfinite)
        assert plan is not None  # noqa: S101 — made for these options alone
        self.session = session
        self.restores = plan[0] == "restore"
        self.limit = plan[1]
        self._checkpoint = checkpoint
        self._optimizers = optimizers
        self._first: int | None = None
        """First lost step of those after which the good state is to be put back."""
        self._good: dict[str, Any] | None = None
        self._lost: list[int] = []
        self._due = 0
        self._began = perf_counter_ns()

    def between_steps(self) -> None:
        """Put the good state back where that is due; else copy what is good, where it is time to."""
        if self._first is not None:
            self._put_back(self._first)
        else:
            self._keep()

    def _keep(self) -> None:
        session = self.session
        if session.position.step < self._due or (self._lost and session.position.step - self._lost[-1] <= 1):
            return
        began = perf_counter_ns()
        state = _copied(self._checkpoint())
        if not _finite(state["models"]):
            self._due = session.position.step + 1
            return
        self._good = state
        took = perf_counter_ns() - began
        per_step = max(1.0, (began - self._began) / max(1, session.position.step + 1))
        self._due = session.position.step + max(_LEAST_STEPS, int(took / (_SHARE * per_step)))

    def lost(self) -> None:
        """This step's loss or gradient is lost. Raises SystemExit for ``rollback``; ``restore`` waits for the end of the step."""
        session, step = self.session, self.session.position.step
        if self._lost[-1:] == [step]:
            return
        self._lost = [*self._lost, step] if self._lost[-1:] == [step - 1] else [step]
        if len(self._lost) < self.limit or self._good is None:
            return
        first, self._lost = self._lost[0], []
        if self.restores:
            self._first = first
            return
        after = self._good["step"]
        torch.save(self._good, session.run / FILE)
        session.rows.event(
            "stopped",
            f"the run was ended at step {step} by --on-nonfinite rollback, the state after step {after} is in {FILE}",
            detail={"to": after, "at": step, "first": first},
        )
        warn(
            "stopped",
            f"lost since step {first}: step {after}'s state is in {session.run / FILE}; exit status {STOPPED}",
        )
        raise SystemExit(STOPPED)

    def _put_back(self, first: int) -> None:
        session, step, good = self.session, self.session.position.step, self._good
        self._first = None
        if good is None:
            return
        for root in session.catalogue.roots:
            module = root.ref()
            if module is not None and root.model in good["models"]:
                module.load_state_dict(good["models"][root.model])
        for optimizer, state in zip(self._optimizers(), good["optimizers"], strict=False):
            optimizer.load_state_dict(_copied(state))
        session.rows.event(
            "rolled-back",
            f"the state after step {good['step']} was put back at step {step}: lost since step {first}",
            detail={"to": good["step"], "at": step, "first": first},
        )
        warn("rolled-back", f"step {step}: lost since step {first}; the state after step {good['step']} was put back")


def _copied(value: Any) -> Any:
    if isinstance(value, Tensor):
        return value.detach().to("cpu", copy=True)
    if isinstance(value, dict):
        return {key: _copied(v) for key, v in value.items()}
    return [_copied(v) for v in value] if isinstance(value, list) else value


def _finite(value: Any) -> bool:
    if isinstance(value, Tensor):
        return not value.is_floating_point() or bool(torch.isfinite(value).all())
    return all(_finite(v) for v in value.values()) if isinstance(value, dict) else True

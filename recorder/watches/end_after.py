"""Ends a run cleanly after some steps or some time, where `firstfault preflight` asked for it by the environment."""

import math
import os
import time
from typing import Any

import torch
from torch.nn.modules import module as nn_module

from ...schemas.files.probe_report import ENV_END_AFTER, UNTIL_SAVED
from ..session.patches import Patches
from ..session.session import Session
from ..session.watch import Watch

_PATIENCE = 1.5
"""Times the seconds given after which an iteration is not waited for."""

AFTER_A_SAVE = 3
"""Steps that follow the first checkpoint, where the run is to go on until it is saved."""


class EndAfter(Watch):
    """Raises SystemExit(0) when a forward begins that is one too many; the script's own clean-up code sees it.

    Of a script that computes with a module's weights and never calls it, a backward is what begins too many.
    """

    name = "end-after"
    writes = ("events:ended-early",)

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        steps, seconds, until = (*os.environ.get(ENV_END_AFTER, "").split(","), "", "")[:3]
        self.steps = int(steps) if steps.isdigit() else 0
        self.seconds = float(seconds) if seconds.replace(".", "", 1).isdigit() else 0.0
        self._until_saved = until == UNTIL_SAVED
        self._saved_at: int | None = None
        """Steps made when the script has saved something first."""
        self._began: float | None = None
        self._ended = False
        self._called = False
        """Whether a module was called since the last backward."""

    def install(self, patches: Patches) -> None:
        """A hook of every forward, only where an end was asked for."""
        if self.steps and self.seconds:
            patches.handles([nn_module.register_module_forward_pre_hook(self._before)])
            patches.around(torch.autograd, "backward", before=self._before_backward)
        if self._until_saved:
            patches.around(torch.serialization, "save", after=self._after_save, also=[torch])

    def _after_save(self, *_: Any, **__: Any) -> None:
        if self._saved_at is None and self.session.started:
            self._saved_at = self.session.position.step - self.session.attempt.first_step

    @property
    def _wanted(self) -> float:
        """Steps to make."""
        if not self._until_saved:
            return self.steps
        return math.inf if self._saved_at is None else max(self.steps, self._saved_at + AFTER_A_SAVE)

    def _before_backward(self, *_: Any, **__: Any) -> None:
        if self._called:  # a forward will say when
            self._called = False
            return
        if self._began is None:
            self._began = time.monotonic()
        done = self.session.position.step - self.session.attempt.first_step
        if not self._ended and (done > self._wanted or time.monotonic() - self._began >= _PATIENCE * self.seconds):
            self._end(done)

    def _before(self, *_: Any) -> None:
        session = self.session
        if self._ended or session.position.in_backward or not session.started:
            return
        self._called = True
        trains = torch.is_grad_enabled()
        if self._began is None:
            if not trains:
                return
            self._began = time.monotonic()
        done = session.position.step - session.attempt.first_step
        passed = time.monotonic() - self._began
        late = done >= 1 and passed >= self.seconds
        # an evaluation is let to its end, unless the time is up
        enough = late or (trains and done >= self._wanted)
        # what no optimizer steps is never done: its next forward begins before it is known to be over
        over = passed >= _PATIENCE * self.seconds or (trains and done > self._wanted)
        if not over and (session.position.pending or not enough):
            return
        self._end(done)

    def _end(self, done: int) -> None:
        self._ended = True
        self.session.rows.event(
            "ended-early",
            f"the run was ended at step {self.session.position.step} as the command asked",
            detail={"steps": done},
        )
        raise SystemExit(0)

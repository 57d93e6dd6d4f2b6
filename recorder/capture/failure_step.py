"""Decide whether an exception belongs to the step just taken or to the next iteration.

The recorder counts on as soon as a step is made, because nothing else marks the end of an iteration. An evaluation or a report
that fails a few lines further down still belongs to the iteration of that step. Lines decide, in the frame of the loop. Code of
the same iteration is below the line that made the step. Code that prepares the next batch is above it, or is the line of the
loop itself.
"""

import sys
from types import CodeType, FrameType, TracebackType

from ..session.session import Session
from ..session.signals import Signals
from ..session.watch import Watch

_DEEPEST = 64


class AfterStep(Watch):
    """Remembers where the last step was made, as code and lines; no frame is kept."""

    name = "after-step"

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self._chain: list[tuple[CodeType, int]] = []
        self._step = -1

    def listen(self, signals: Signals) -> None:
        """Note where each step is made, and answer for failures."""
        signals.step_begins.connect(self.name, self._note_frames)
        self.session.answers.step_of_failure = self.step_of

    def _note_frames(self) -> None:
        chain: list[tuple[CodeType, int]] = []
        frame: FrameType | None = sys._getframe(1)
        while frame is not None and len(chain) < _DEEPEST:
            chain.append((frame.f_code, frame.f_lineno))
            frame = frame.f_back
        chain.reverse()
        self._chain, self._step = chain, self.session.position.step

    def step_of(self, trace: TracebackType | None) -> int:
        """The step to which an exception belongs."""
        position, step_row = self.session.position, self.session.step_row
        untouched = not position.pending and not step_row.clock["data"] and not set(step_row.calls) & {"f", "b"}
        if untouched and position.step == self._step + 1 and self._below(trace):
            return self._step
        return position.step

    def _below(self, trace: TracebackType | None) -> bool:
        codes = [code for code, _ in self._chain]
        while trace is not None and trace.tb_frame.f_code not in codes:
            trace = trace.tb_next
        if trace is None:
            return False
        for code, line in self._chain[codes.index(trace.tb_frame.f_code) :]:
            if trace is None or trace.tb_frame.f_code is not code:
                return False
            if trace.tb_lineno != line:
                return trace.tb_lineno > line
            trace = trace.tb_next
        return False

"""How long the run is to be, as the script's loops say it, and a schedule simulated to that end."""

from types import CodeType, FrameType
from typing import Any

from ...schemas.files.probe_report import ProbeResult
from ..script.plain_values import UnknownError
from ..script.planned_steps import Loop, calls_now, loop_of, loops_around, planned, removes_files
from .schedules import simulate
from .trial import result, untried

_LOOKS = 2
"""Steps at which the loops are looked at: a counter shows how it is raised."""

_FEWEST = 3
"""Calls of a schedule that are worth a simulation."""
_MOST = 200_000
"""Calls that are simulated: seconds."""


class RunLength:
    """The loops around the first two steps, and where schedules were made."""

    def __init__(self) -> None:
        self.whole = True
        """Whether one optimizer alone is stepped."""
        self._seen: list[list[Loop] | None] = []
        self._made_in: dict[int, list[tuple[CodeType, int]]] = {}

    def made(self, scheduler: Any, frame: FrameType | None) -> None:
        """A schedule was made here."""
        self._made_in[id(scheduler)] = calls_now(frame)

    def look(self, frame: FrameType | None) -> None:
        """An optimizer was stepped here."""
        if len(self._seen) < _LOOKS:
            try:
                self._seen.append(loops_around(frame))
            except UnknownError:
                self._seen.append(None)
            except Exception:  # noqa: BLE001 — of a stranger's source
                self._seen.append(None)

    def told(self, name: str = "run-length") -> ProbeResult:
        """How many optimizer steps the loops make."""
        try:
            steps = planned(*self._both())
        except UnknownError:
            return untried(name, "run-length-unknown")
        except Exception as e:  # noqa: BLE001 — of a stranger's source
            return untried(name, "probe-raised", error=f"{type(e).__name__}: {e}"[:200])
        return result(name, "passed", "run-length", steps=steps, removes=removes_files())

    def simulated(self, scheduler: Any, frame: FrameType | None, *, by_step: bool) -> ProbeResult | None:
        """The schedule to the end of the run; None where it cannot be told how often it is stepped."""
        try:
            first, second = self._both()
            at = loop_of(frame, scheduler)
            if at and any(loop.bounds for loop in first[:at]):
                return None
            calls = planned(first[at:], second[at:], self._made_in.get(id(scheduler)), passes_only=at > 0)
        except Exception:  # noqa: BLE001 — unknown, or of a stranger's source: it is judged by its own length
            return None
        if by_step is not (at == 0) or not _FEWEST <= calls <= _MOST:
            return None
        # a call may have been made already before the second step
        return simulate(scheduler, calls - 1 if at == 0 else calls, read=calls)

    def _both(self) -> tuple[list[Loop], list[Loop]]:
        first, second = [*self._seen, None, None][:_LOOKS]
        if not self.whole or first is None or second is None:
            raise UnknownError
        return first, second

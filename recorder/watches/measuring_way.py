"""Which way tensors in the host's memory are measured in this process, and why not by the library where it is not used."""

from ...schemas.files.step_values import Row
from ..base.process_notes import note_process
from ..session.signals import Signals
from ..session.watch import Watch
from ..tensors import native


class MeasuringWay(Watch):
    """Fills ``ranks.instructions`` and ``ranks.without_library``; where the library is not used although nobody left it out, it
    leaves a note for the closing lines of `firstfault run`."""

    name = "measuring-way"
    writes = ("ranks.instructions", "ranks.without_library")

    def listen(self, signals: Signals) -> None:
        """Say it once."""
        signals.recording_begins.connect(self.name, self._say)

    def _say(self, row: Row) -> None:
        why_not = native.why_not()
        if native.library is not None:
            row["instructions"] = native.library.instructions
        elif why_not is not None:
            row["without_library"] = why_not = self.session.secrets.text(why_not)
            if not native.left_out():
                note_process(self.session.run, without_library=why_not)

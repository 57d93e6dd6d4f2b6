"""Record losses of evaluations, which most scripts only print: they are known when the script reads them with ``item()``.

A number counts if it is read after an evaluation forward, from a tensor of a single floating-point element. The code that reads
it must speak of a loss, in its own words or in those that were assigned to the variable. The training loss, which a script may
print beside it, has a graph and does not count. The mean over one evaluation becomes a row of `metrics`.
"""

import ast
import re
from types import CodeType, FrameType

from ..script.frames import script_place
from ..script.number_words import A_LOSS, A_SCORE
from ..script.statements import assigned
from ..session.session import Session
from ..session.signals import Signals

PART = "eval-losses"
"""Slug of what host_reads.py does for evaluations."""

_VARIABLE = re.compile(r"([A-Za-z_]\w*)\.")
_MOST_PLACES = 16


class _Loss:
    """What one line has read in the evaluation in progress."""

    __slots__ = ("count", "name", "total")

    def __init__(self, name: str) -> None:
        self.name = name
        self.total = 0.0
        self.count = 0


def read_from(text: str) -> str:
    """A statement without what is only given to the function whose result it reads with ``item()``: of
    ``sdr = usdr(x, compute_loss(y)[1]).item()`` it is ``sdr = usdr().item()``. The whole text, where that cannot be told."""
    try:
        tree = ast.parse(text.strip())
    except SyntaxError:
        return text
    calls = [n for n in ast.walk(tree) if isinstance(n, ast.Call)]
    reads = [n.func.value for n in calls if isinstance(n.func, ast.Attribute) and n.func.attr == "item"]
    if len(reads) != 1:
        return text
    _leave_out_arguments(reads[0])
    return ast.unparse(tree)


def _leave_out_arguments(value: ast.expr) -> None:
    match value:
        case ast.Call(func=ast.Attribute(value=ast.Name(id="torch" | "np" | "numpy")), args=[first, *_]):
            _leave_out_arguments(first)  # a mean, a square root
        case ast.Call(func=called):
            value.args, value.keywords = [], []
            if isinstance(called, ast.Attribute):
                _leave_out_arguments(called.value)
        case ast.Subscript(value=held):
            _leave_out_arguments(held)
        case _:
            pass


class EvalLosses:
    """Adds rows to `metrics`."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self._places: dict[tuple[CodeType, int], _Loss | None] = {}
        self._touched: list[_Loss] = []

    def listen(self, signals: Signals) -> None:
        """Write what was read in each step, and at the end."""
        signals.row_ends.connect(PART, self._write_rows)
        signals.recording_ends.connect(PART, self._write_rows)

    def read(self, frame: FrameType, value: float) -> None:
        """The script has read a number from a tensor after an evaluation forward."""
        key = (frame.f_code, frame.f_lasti)
        loss = self._places.get(key)
        if loss is None:
            if key in self._places or len(self._places) == _MOST_PLACES:
                return
            loss = self._places[key] = self._named(frame)
            if loss is None:
                return
        if loss.count == 0:
            self._touched.append(loss)
        loss.total += value
        loss.count += 1

    def _named(self, frame: FrameType) -> _Loss | None:
        place = script_place(frame)
        if place is None or place.code is not frame.f_code:
            return None
        where, text = place.words()
        variable = _VARIABLE.match(text or "")
        if variable and not A_LOSS.search(text or ""):
            text = assigned(place.code.co_filename).get((place.code.co_name, variable[1]))
        if text is None or not A_LOSS.search(read_from(text)) or A_SCORE.search(text):
            return None
        return _Loss(f"evaluation loss ({where})")

    def _write_rows(self) -> None:
        if not self._touched:
            return
        touched, self._touched = self._touched, []
        for loss in touched:
            self.session.rows.metric(loss.name, loss.total / loss.count, max(self.session.position.step - 1, 0), "read")
            loss.total, loss.count = 0.0, 0

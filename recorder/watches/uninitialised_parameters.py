"""Parameters whose values are what was in memory, as their model is called for the first time.

The source of the script's own files says that a class makes them by ``torch.empty`` and fills them nowhere. The tensor's own
counter of writes says that nobody else has filled them either. What reaches into ``.data`` is not counted, so the script's own
files are read for that.
"""

import linecache
import re
import sys

from torch import Tensor, nn

from ..script.frames import is_users, shown
from ..script.uninitialised import Unfilled, unfilled
from ..session.registry import ModuleEntry
from ..session.session import Session
from ..session.signals import Signals
from ..session.watch import Watch
from ..tensors.measure import measure
from ..tensors.moments import measurable

_MOST_TOLD = 16
_PAST_THE_COUNTER = re.compile(r"\.data\.\w+_\(|(?<!\bself)\.data\s*(\[[^\]\n]*\]\s*)?=[^=]")
"""What writes to a parameter without being counted."""


class UninitialisedParameters(Watch):
    """Writes an event for each."""

    name = "uninitialised-parameters"
    writes = ("events:parameter-unfilled",)

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self._told: set[tuple[str, int]] = set()

    def listen(self, signals: Signals) -> None:
        """Look at each model before its first forward."""
        signals.model_found.connect(self.name, self._model)
        signals.inner_model_found.connect(self.name, self._model)

    def _model(self, root: ModuleEntry) -> None:
        model = root.ref()
        for part in () if model is None else model.modules():
            file = _file_of(type(part))
            for slip in unfilled(file) if file else ():
                parameter = part._parameters.get(slip.attribute)
                if (
                    slip.owner == type(part).__name__
                    and parameter is not None
                    and parameter._version == 0
                    and measurable(parameter)
                    and (file, slip.line) not in self._told
                    and len(self._told) < _MOST_TOLD
                    and not _filled_elsewhere(file, slip.attribute)
                ):
                    self._told.add((file, slip.line))
                    self._tell(part, parameter, slip, file)

    def _tell(self, part: nn.Module, parameter: Tensor, slip: Unfilled, file: str) -> None:
        entry = self.session.catalogue.find(part)
        moments = measure(parameter.detach())
        self.session.rows.event(
            "parameter-unfilled",
            f"{slip.text} is filled by nothing",
            module_id=None if entry is None else entry.id,
            detail={
                "text": slip.text,
                "attribute": slip.attribute,
                "place": f"{shown(file)}:{slip.line}",
                "numel": moments.numel,
                "lost": moments.nonfinite,
                "largest": max(abs(moments.min or 0.0), abs(moments.max or 0.0)),
            },
        )


def _file_of(cls: type[nn.Module]) -> str:
    code = getattr(getattr(cls, "__init__", None), "__code__", None)
    file = getattr(code, "co_filename", "")
    return file if file and is_users(file) else ""


def _filled_elsewhere(file: str, attribute: str) -> bool:
    """Whether the script's own files write past a tensor's counter, or another one names the attribute."""
    others = {getattr(module, "__file__", None) for module in list(sys.modules.values())} - {file}
    named = re.compile(rf"\.{re.escape(attribute)}\b")
    texts = ["".join(linecache.getlines(o)) for o in others if isinstance(o, str) and o.endswith(".py") and is_users(o)]
    return any(named.search(text) for text in texts) or any(
        _PAST_THE_COUNTER.search(text) for text in (*texts, "".join(linecache.getlines(file)))
    )

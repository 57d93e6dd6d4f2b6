"""What the process says about itself while it trains: warnings, and compilations by torch.compile."""

import functools
import logging
import sys
import threading
import warnings
from pathlib import Path
from typing import Any

from ..session.patches import Patches
from ..session.session import Session
from ..session.signals import Signals
from ..session.watch import Watch

_MOST_WARNINGS = 200
_MOST_COMPILATIONS = 500
_LONGEST = 500
_MOST_LIMITS = 20
_GAVE_UP = "torch._dynamo hit config."


class WarningWatch(Watch):
    """Writes an event for each distinct warning that is shown; filters, output and recorded warnings stay as they are."""

    name = "warnings"
    writes = ("events:warning",)

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self._seen: set[tuple[str, str, int, str]] = set()
        self._shown: Any = None
        """What prints a warning, unless the script has put something of its own in its place."""

    def install(self, patches: Patches) -> None:
        """Wrap the function to which the warnings module, in C and in Python, hands what has passed the filters.

        Replacing ``warnings.showwarning`` instead would lose the source of a ResourceWarning, and would be undone by a
        ``catch_warnings`` that was entered before.
        """
        if not hasattr(warnings, "_showwarnmsg"):
            return
        self._shown = getattr(warnings, "_showwarnmsg_impl", None)
        patches.around(warnings, "_showwarnmsg", after=self.guarded(self._said))

    def _said(self, _note: Any, _result: Any, message: Any) -> None:
        if getattr(warnings, "_showwarnmsg_impl", None) is not self._shown:
            return  # inside catch_warnings(record=True) the script keeps the warning for itself
        if threading.get_ident() != self.session.position.thread:
            return
        text = str(message.message)[:_LONGEST]
        category = message.category.__name__
        key = (category, str(message.filename), int(message.lineno), text)
        if key in self._seen or len(self._seen) == _MOST_WARNINGS:
            return
        self._seen.add(key)
        place = f"{message.filename}:{message.lineno}"
        self.session.rows.event(
            "warning",
            f"{category}: {text}",
            detail={"category": category, "place": place, "file": Path(str(message.filename)).name},
        )


class CompilationWatch(Watch):
    """Writes an event at the end of each step in which torch.compile made new graphs, from its own counters."""

    name = "compilation"
    writes = ("events:compiled", "events:recompiled", "events:recompile-limit")

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self._graphs = 0
        self._events = 0
        self._limits = 0

    def listen(self, signals: Signals) -> None:
        """Look at torch's counters after each step."""
        signals.row_ends.connect(self.name, self._count_compilations)

    def install(self, patches: Patches) -> None:
        """Listen to the one line with which torch gives up; it is logged as before."""
        patches.after_import("torch._dynamo.convert_frame", functools.partial(self._listen, patches))

    def _listen(self, patches: Patches, convert_frame: Any) -> None:
        log = getattr(convert_frame, "log", None)
        if not isinstance(log, logging.Logger):
            return
        said = self.guarded(self._gave_up)

        def passing(record: logging.LogRecord) -> bool:
            said(record)
            return True

        log.addFilter(passing)
        patches.later(functools.partial(log.removeFilter, passing))

    def _gave_up(self, record: logging.LogRecord) -> None:
        """torch._dynamo does not compile a function any more: it has compiled it so often that it has reached its limit."""
        if not str(record.msg).startswith(_GAVE_UP) or not isinstance(record.args, tuple) or len(record.args) < 4:
            return
        if self._limits == _MOST_LIMITS or threading.get_ident() != self.session.position.thread:
            return
        self._limits += 1
        limit, number, function, reason = (str(a)[:_LONGEST] for a in record.args[:4])
        self.session.rows.event(
            "recompile-limit",
            f"torch.compile reached {limit} ({number}) at {function} and runs it uncompiled; last reason: {reason}",
            detail={"limit": limit, "number": number, "function": function, "reason": reason},
        )

    def _count_compilations(self) -> None:
        dynamo = sys.modules.get("torch._dynamo.utils")
        if dynamo is None or self._events == _MOST_COMPILATIONS:
            return
        counters = dynamo.counters
        graphs = int(counters["stats"].get("unique_graphs", 0)) if "stats" in counters else 0
        new, self._graphs = graphs - self._graphs, graphs
        if new <= 0:
            return
        first = self._events == 0
        self._events += 1
        breaks = sum(counters["graph_break"].values()) if "graph_break" in counters else 0
        self.session.rows.event(
            "compiled" if first else "recompiled",
            f"torch.compile made {new} new graph{'s' if new > 1 else ''} in this step, {graphs} so far",
            detail={"new": new, "graphs": graphs, "graph_breaks": int(breaks)},
        )

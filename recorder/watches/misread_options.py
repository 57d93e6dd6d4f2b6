"""Options of the command that cannot say no: argparse calls ``type`` with a text, and ``bool("False")`` is True."""

import argparse
from typing import Any

from ..script.frames import caller
from ..session.patches import Patches
from ..session.session import Session
from ..session.watch import Watch

_NO = frozenset({"false", "f", "no", "n", "off", "0"})
"""Texts that nobody gives to turn something on."""

_MOST_TOLD = 16


class OptionWatch(Watch):
    """Writes an event for each option that was given such a text and became True.

    Scripts parse their options before they have a model. So it listens from the import of torch on.
    """

    name = "options"
    writes = ("events:option-misread",)

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self._told: set[str] = set()

    def install(self, patches: Patches) -> None:
        """Note each text that argparse makes a value of: those of the command, and defaults that are texts."""
        if hasattr(argparse.ArgumentParser, "_get_value"):  # no public function sees action and text together
            patches.around(argparse.ArgumentParser, "_get_value", after=self.guarded(self._made))

    def _made(self, _note: None, value: Any, _parser: Any, action: Any = None, text: Any = None, *_: Any) -> None:
        if value is not True or getattr(action, "type", None) is not bool or not isinstance(text, str):
            return
        if text.strip().lower() not in _NO or len(self._told) >= _MOST_TOLD:
            return
        place = caller()
        option = max(action.option_strings, key=len) if action.option_strings else str(action.dest)
        if place is None or option in self._told:
            return
        self._told.add(option)
        self.session.rows.event(
            "option-misread",
            f"{option} has the text {text.strip()} and is True",
            detail={
                "option": option,
                "name": str(action.dest),
                "text": text.strip(),
                "by_default": text is action.default,
                "place": place.words()[0],
            },
        )

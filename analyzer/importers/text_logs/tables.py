"""Tables of two columns, one a report, as Stable-Baselines3, OpenAI's baselines and guided-diffusion print them:

---------------------------
| rollout/       |        |
|    ep_rew_mean | 1.43   |
| train/         |        |
|    loss        | 0.0076 |
---------------------------
"""

import re
from collections.abc import Iterable

from ..records import Record
from .log_format import NUMBER, LogFormat, number

_ROW = re.compile(rf"^\W*\| (\s*)([A-Za-z_][\w/.@:-]*) +\| +({NUMBER}) *\|\s*$")
_GROUP = re.compile(r"^\W*\| ([A-Za-z_][\w .-]*/) +\| +\|\s*$")
_RULE = re.compile(r"^\W*-{6,}\s*$")


class _Tables:
    def __init__(self) -> None:
        self._group = ""
        self._row: Record = {}

    def take(self, line: str) -> Iterable[Record]:
        if _RULE.match(line):
            yield from self.end()
        elif found := _GROUP.match(line):
            self._group = found[1]
        elif found := _ROW.match(line):
            # names of a group stand further in
            self._row[(self._group if found[1] else "") + found[2]] = number(found[3])

    def end(self) -> Iterable[Record]:
        if self._row:
            yield self._row
        self._group, self._row = "", {}


FORMAT = LogFormat("tables of names and numbers", _ROW, _Tables, "words in the tables, and everything between them")

"""MLPerf: `:::MLLOG {"key": "train_loss", "value": 0.5, "metadata": {"step_num": 10}, "time_ms": …}`.

Which count is the step differs by benchmark: one is taken for the whole log, the first of the list that most values have. A
value that lacks it belongs to the one before.
"""

import json
import re
from collections import Counter
from collections.abc import Iterable
from typing import Any

from ..records import Record
from .log_format import LogFormat

_LINE = re.compile(r":::MLLOG (\{.*\})")
_COUNTS = (
    "step_num",
    "step",
    "iteration",
    "iter",
    "train_iters",
    "samples_count",
    "train_samples",
    "epoch_num",
    "epoch_count",
)
_VALUES = re.compile(
    r"loss|accuracy|error|throughput|^lr$|learning_rate$|^tracked_stats$|grad|norm|score|dice|map|log_perplexity"
)
_SETTINGS = re.compile(r"^opt_|target|_batch_size$|^gradient_accumulation")


class _Values:
    def __init__(self) -> None:
        self._found: list[tuple[dict[str, Any], Record]] = []

    def take(self, line: str) -> Iterable[Record]:
        found = _LINE.search(line)
        try:
            said = json.loads(found[1]) if found else None
        except (ValueError, RecursionError):
            said = None
        if not isinstance(said, dict):
            return ()
        key, value, about = str(said.get("key")), said.get("value"), said.get("metadata")
        if not _VALUES.search(key) or _SETTINGS.search(key) or not isinstance(about, dict):
            return ()
        values = value if isinstance(value, dict) else {key: value}
        numbers: Record = {
            str(n): v for n, v in values.items() if isinstance(v, int | float) and not isinstance(v, bool)
        }
        if numbers:
            self._found.append((about, numbers | {"time": said.get("time_ms")}))
        return ()

    def end(self) -> Iterable[Record]:
        counted = Counter(n for about, _ in self._found for n in _COUNTS if isinstance(about.get(n), int | float))
        most = max(counted.values(), default=0)
        name = next((n for n in _COUNTS if most and counted[n] == most), None)
        last: int | float | None = None
        for about, record in self._found:
            count = about.get(name) if name else None
            last = count if isinstance(count, int | float) else last
            if name is None or last is not None:
                yield record | ({"step": last} if name else {})


FORMAT = LogFormat(
    "MLPerf's MLLOG", _LINE, _Values, "settings, starts and stops of intervals, values before the log's first count"
)

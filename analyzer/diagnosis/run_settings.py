"""What a run was started with, flat: what the script declared, its arguments, and what optimizer and batches were seen.

Runs of a sweep differ in these; an index holds them against the verdicts.
"""

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from ..reading.trace import Trace

MOST = 200
"""Settings kept of one run."""

_LONGEST = 60  # characters; a longer text is no setting that runs share

_OPTION = re.compile(r"^--?([A-Za-z][\w.-]*)(?:=(.*))?$", re.DOTALL)
_ASSIGNED = re.compile(r"^\+?\+?([A-Za-z_][\w./-]*)=(.*)$", re.DOTALL)  # hydra's way

_GROUP_SQL = """
SELECT optimizer, arg_min(lr, step) AS lr, arg_min(weight_decay, step) AS weight_decay, arg_min(momentum, step) AS momentum
FROM param_groups
WHERE rank = (SELECT min(rank) FROM param_groups) AND group_id = 0
  AND optimizer_id = (SELECT min(optimizer_id) FROM param_groups)
GROUP BY optimizer LIMIT 1
"""

_BATCH_SQL = "SELECT mode(batch_size) AS size, max(workers) AS workers FROM batches WHERE phase <> 'eval'"

_RANK_SQL = "SELECT any_value(torch_version) AS torch, max(world_size) AS world, any_value(seed) AS seed FROM ranks"


def run_settings(trace: Trace) -> dict[str, str | float]:
    """Settings by name: numbers as numbers, all else as text. What the script declared comes before its arguments, and both
    before what was seen."""
    manifest = trace.manifest
    found: dict[str, str | float] = {}
    seen = {}
    for query, names in (
        (_GROUP_SQL, ("optimizer", "lr", "weight_decay", "momentum")),
        (_BATCH_SQL, ("size", "workers")),
        (_RANK_SQL, ("torch", "world", "seed")),
    ):
        row = next(iter(trace.sql(query).to_dicts()), {})
        seen |= {SEEN.get(name, name): row.get(name) for name in names}
    for source in (_flat(manifest.config), arguments(manifest.argv), seen, {"host": manifest.hostname}):
        for name, value in source.items():
            known = _value(value)
            if name not in found and known is not None and len(found) < MOST:
                found[name] = known
    return found


SEEN = {"size": "batch size", "workers": "loader workers", "torch": "torch version", "world": "ranks"}
"""What the recording has seen -> what it is called among the settings: our words, where the others are the script's."""


def arguments(argv: Sequence[str]) -> dict[str, Any]:
    """Arguments of a script as names and values: ``--lr 0.1``, ``--lr=0.1``, ``lr=0.1``; a lone ``--flag`` is yes."""
    found: dict[str, Any] = {}
    waiting: str | None = None
    for word in argv:
        option = _OPTION.match(word)
        if option:
            if waiting is not None:
                found[waiting] = "yes"
            if option.group(2) is None:
                waiting = option.group(1)
            else:
                found[option.group(1)], waiting = option.group(2), None
            continue
        assigned = _ASSIGNED.match(word)
        if waiting is not None:
            found[waiting], waiting = word, None
        elif assigned:
            found[assigned.group(1)] = assigned.group(2)
    if waiting is not None:
        found[waiting] = "yes"
    return found


def _flat(values: Mapping[str, Any], before: str = "") -> dict[str, Any]:
    rows: dict[str, Any] = {}
    for key, value in values.items():
        name = f"{before}{key}"
        if isinstance(value, Mapping):
            rows |= _flat(value, f"{name}.")
        else:
            rows[name] = value
    return rows


def _value(value: Any) -> str | float | None:
    if value is None:
        return None
    if isinstance(value, bool):
        return "yes" if value else "no"
    text = str(value)
    try:
        number = float(value if isinstance(value, int | float) else text)
    except (ValueError, OverflowError):
        number = math.inf
    if math.isfinite(number):  # "nan" may be a name, and JSON holds no number of that kind
        return number
    return text if len(text) <= _LONGEST else None

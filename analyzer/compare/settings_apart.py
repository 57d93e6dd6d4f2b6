"""Settings of the optimizers that two runs do not share: learning rate, weight decay and all else of a parameter group."""

import json
import math
from dataclasses import dataclass
from typing import Any

from ..reading.trace import Trace
from .divergence import SETTINGS, Divergence

CLOSE = 1e-6
"""Relative difference up to which two settings are the same number computed in two ways."""

_NUMBERS = ("lr", "weight_decay", "momentum", "beta2", "eps")
_GROUPS = """
SELECT rank, step, optimizer_id, group_id, optimizer, lr, weight_decay, momentum, beta2, eps, settings, parameters
FROM param_groups WHERE rank = (SELECT min(rank) FROM param_groups) AND step BETWEEN $first AND $last
ORDER BY step, optimizer_id, group_id
"""


@dataclass(frozen=True, slots=True)
class SettingChange:
    """One setting of one group that differs from step ``first`` to ``last``, in ``steps`` steps; ``a`` and ``b`` are its
    values in the first of them. ``real`` is False for numbers that differ by rounding alone."""

    optimizer_id: int
    group_id: int
    name: str
    first: int
    last: int
    steps: int
    a: Any
    b: Any
    real: bool
    rank: int

    @property
    def label(self) -> str:
        """The setting with its group."""
        return f"{self.name} of optimizer {self.optimizer_id}, group {self.group_id}"

    @property
    def divergence(self) -> Divergence:
        """The same as a divergence: it takes effect when the optimizer steps, after the gradients."""
        return Divergence(
            step=self.first,
            step_lower=self.first,
            what="setting",
            kind="setting",
            name=self.label,
            module=None,
            phase="optimizer",
            rank=self.rank,
            microbatch=None,
            measure=self.name,
            a=self.a,
            b=self.b,
            order=(SETTINGS, self.optimizer_id, self.group_id),
        )


def setting_changes(a: Trace, b: Trace, first: int, last: int) -> list[SettingChange]:
    """Every setting that differs in any step that both runs have, the earliest first."""
    groups: list[dict[tuple[int, int, int], dict[str, Any]]] = []
    for trace in (a, b):
        rows = trace.sql(_GROUPS, {"first": first, "last": last}).iter_rows(named=True)
        groups.append({(r["step"], r["optimizer_id"] or 0, r["group_id"]): r for r in rows})
    found: dict[tuple[int, int, str], list[Any]] = {}
    for key in sorted(groups[0].keys() & groups[1].keys()):
        one, two = groups[0][key], groups[1][key]
        if _same_row(one, two):
            continue
        left, right = _values(one), _values(two)
        for name in dict.fromkeys([*left, *right]):
            mine, other = left.get(name), right.get(name)
            if mine == other:
                continue
            entry = found.setdefault((key[1], key[2], name), [key[0], key[0], 0, mine, other, False, one["rank"]])
            entry[1] = key[0]
            entry[2] += 1
            entry[5] = entry[5] or not _close(mine, other)
    changes = [SettingChange(optimizer, group, name, *entry) for (optimizer, group, name), entry in found.items()]
    return sorted(changes, key=lambda c: (c.first, c.optimizer_id, c.group_id, c.name != "lr", c.name))


def _same_row(a: dict[str, Any], b: dict[str, Any]) -> bool:
    return all(a[k] == b[k] for k in (*_NUMBERS, "optimizer", "settings", "parameters"))


def _values(row: dict[str, Any]) -> dict[str, Any]:
    """The settings of a group by name, those in the JSON column among them."""
    try:
        more = json.loads(row["settings"] or "{}")
    except json.JSONDecodeError:
        more = {"settings": row["settings"]}
    own = {k: row[k] for k in (*_NUMBERS, "optimizer", "parameters")}
    return own | (more if isinstance(more, dict) else {"settings": more})


def _close(a: Any, b: Any) -> bool:
    if isinstance(a, int | float) and isinstance(b, int | float) and not isinstance(a, bool | str):
        return math.isclose(a, b, rel_tol=CLOSE)
    return False

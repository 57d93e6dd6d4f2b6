"""The fault catalogue: every code, its name, and the recorded columns that hold its signal."""

import tomllib
from functools import cache
from importlib.resources import files

import msgspec

from ...schemas import RECORDS, TABLES
from ..errors import RuleError
from .rule import load_rules


class Fault(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One row. ``signals`` are `table.column`; ``later`` says why a fault has none yet."""

    name: str
    signals: tuple[str, ...] = ()
    later: str = ""


@cache
def load_catalogue() -> dict[str, Fault]:
    """Every fault by code: of catalogue.toml, then of rules that say in their header what shows theirs. Raises RuleError where
    a row has no signal and no reason, or names a column that is not."""
    text = (files("firstfault.analyzer") / "rules" / "catalogue.toml").read_text(encoding="utf-8")
    faults = msgspec.convert(tomllib.loads(text), dict[str, Fault])
    for header in (rule.header for rule in load_rules() if rule.header.signals):
        if header.code in faults:
            raise RuleError(
                f"catalogue.toml: {header.code} stands there and has signals in the header of its rule, too"
            )
        faults[header.code] = Fault(header.name, header.signals)
    columns = {f"{t.name}.{c}" for t in (*TABLES.values(), *RECORDS.values()) for c in t.column_names}
    for code, fault in faults.items():
        unknown = sorted(set(fault.signals) - columns)
        if unknown:
            raise RuleError(f"catalogue.toml: {code} names columns that no table has: {', '.join(unknown)}")
        if bool(fault.signals) == bool(fault.later):
            raise RuleError(f"catalogue.toml: {code} needs either signals or the reason why it has none")
    return faults

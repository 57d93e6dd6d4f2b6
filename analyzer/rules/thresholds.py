"""Which rules judge a run, and with which thresholds: ours, a user's own, and what firstfault.toml changes.

    [rules]
    off = ["class-imbalance"]      # by name or code
    [rules.OP004]
    ratio = 0.2

The file lies in the current folder or above it; the nearest one counts. One in the run folder is not read: it came with the run,
and who made the run must not choose what is found in it.
"""

import tomllib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec

from ..errors import RuleError
from ..verdict import Change
from .rule import Rule, load_own_rules, load_rules

SETTINGS_FILE = "firstfault.toml"


@dataclass(frozen=True, slots=True)
class RuleSet:
    """The rules in use and what was changed about them."""

    rules: tuple[Rule, ...]
    changes: tuple[Change, ...] = ()
    ignored: Path | None = None
    """A firstfault.toml of the run folder itself."""


def rules_for(run: Path | None = None, own: Path | None = None) -> RuleSet:
    """The rules for a run. Raises RuleError naming the file for an unknown rule or parameter, or a name used twice."""
    rules = list(load_rules())
    if own is not None:
        taken = {key for r in rules for key in (r.header.code, r.header.name)}
        for rule in load_own_rules(own):
            if {rule.header.code, rule.header.name} & taken:
                raise RuleError(
                    f"{own / rule.file}: {rule.header.code} {rule.header.name} is taken; choose another code and name"
                )
            taken |= {rule.header.code, rule.header.name}
            rules.append(rule)
    file = settings_file(run)
    own_file = run / SETTINGS_FILE if run is not None else None
    ignored = own_file if own_file is not None and own_file.exists() else None
    judged = RuleSet(tuple(rules)) if file is None else _changed(rules, file)
    return replace(judged, ignored=ignored)


def settings_file(run: Path | None) -> Path | None:
    """firstfault.toml of the current folder or the nearest one above it; of none that belongs to the run folder."""
    here = Path.cwd()
    inside = run.resolve() if run is not None else None
    places = [p for p in (here, *here.parents) if inside is None or not p.resolve().is_relative_to(inside)]
    return next((p / SETTINGS_FILE for p in places if (p / SETTINGS_FILE).is_file()), None)


def _changed(rules: list[Rule], file: Path) -> RuleSet:
    try:
        settings: Any = tomllib.loads(file.read_text(encoding="utf-8")).get("rules", {})
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as e:
        raise RuleError(f"{file}: cannot be read ({e}); correct it or move it away") from e
    if not isinstance(settings, dict):
        raise RuleError(f"{file}: [rules] must be a table")
    wanted = {str(k): v for k, v in settings.items()}
    off = wanted.pop("off", [])
    if not isinstance(off, list):
        raise RuleError(f"{file}: rules.off must be a list of names or codes")
    changes: list[Change] = []
    for key in map(str, off):
        rule = _named(rules, key, file)
        rules.remove(rule)
        changes.append(Change(rule.header.name, "", None, None, str(file)))
    for key, values in wanted.items():
        rule = _named(rules, key, file)
        if not isinstance(values, dict):
            raise RuleError(f"{file}: [rules.{key}] must be a table of parameters")
        params = dict(rule.header.params)
        for name, value in values.items():
            known = params.get(str(name))
            if known is None:
                raise RuleError(f"{file}: {key} has no parameter {name!r}; it has {', '.join(params) or 'none'}")
            if (
                isinstance(value, bool)
                or isinstance(value, str) != isinstance(known.value, str)
                or not isinstance(value, int | float | str)
            ):
                raise RuleError(f"{file}: {key}.{name} must be like {known.value!r}")
            params[str(name)] = msgspec.structs.replace(known, value=value)
            changes.append(Change(rule.header.name, str(name), value, known.value, str(file)))
        rules[rules.index(rule)] = replace(rule, header=msgspec.structs.replace(rule.header, params=params))
    return RuleSet(tuple(rules), tuple(changes))


def _named(rules: list[Rule], key: str, file: Path) -> Rule:
    rule = next((r for r in rules if key.lower() in {r.header.code.lower(), r.header.name}), None)
    if rule is None:
        raise RuleError(f"{file}: no rule is called {key!r}; `firstfault rules` lists them")
    return rule

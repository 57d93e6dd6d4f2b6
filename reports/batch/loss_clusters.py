"""Runs that share their first cause, each group with its losses side by side and with what only these runs have in common."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from ...analyzer.diagnosis.run_settings import SEEN
from ..text.language import say
from ..text.wording import number, plural, show_name, spoken
from .run import BatchRow

MOST_CURVES = 24
"""Losses drawn of one group."""

MOST_GROUPS = 20

Setting = tuple[str, str | float]
"""A setting's name and value."""

TELLING = 0.5
"""A value that all runs of a group share is worth a word where at most this share of the other runs has it too."""

MOST_SHARED = 5


@dataclass(frozen=True, slots=True)
class Curve:
    """One small loss: the run's name, its page, and the values of its curve (null where it was lost)."""

    name: str
    href: str | None
    values: list[float | None]


@dataclass(frozen=True, slots=True)
class Cluster:
    """Runs with one first cause (``name`` is empty for those without); ``words``: where they began and what they share."""

    name: str
    title: str
    verdict: str
    runs: int
    words: str
    curves: list[Curve]


def clusters(rows: Sequence[BatchRow]) -> list[Cluster]:
    """Groups, the largest first; runs without a cause at the end."""
    groups: dict[str, list[BatchRow]] = {}
    for row in rows:
        s = row.summary
        groups.setdefault(s.fault if s.fault and s.severity != "warning" else f" {s.verdict}", []).append(row)
    ordered = sorted(groups.items(), key=lambda g: (g[0].startswith(" "), -len(g[1]), g[0]))
    everywhere = Counter(setting for r in rows for setting in r.summary.settings.items())
    known = sum(bool(r.summary.settings) for r in rows)
    return [_cluster(key, held, everywhere, known) for key, held in ordered[:MOST_GROUPS]]


def _cluster(key: str, held: Sequence[BatchRow], everywhere: Counter[Setting], known: int) -> Cluster:
    without = key.startswith(" ")
    curves = [Curve(show_name(r.name), r.page, r.summary.loss_curve) for r in held if r.summary.loss_curve]
    return Cluster(
        name="" if without else key,
        title=say("No cause, {verdict}", verdict=say(key.strip())) if without else show_name(spoken(key)),
        verdict=held[0].summary.verdict,
        runs=len(held),
        words=say("; ").join(w for w in (_where(held, without=without), _shared(held, everywhere, known)) if w),
        curves=curves[:MOST_CURVES],
    )


def _where(held: Sequence[BatchRow], *, without: bool) -> str:
    steps = [r.summary.step for r in held if r.summary.step is not None]
    if without or not steps:
        return ""
    low, high = min(steps), max(steps)
    words = (
        say("from step {low}", low=number(low))
        if low == high
        else say("from steps {low} to {high}", low=number(low), high=number(high))
    )
    [(module, count)] = Counter(r.summary.module for r in held).most_common(1)
    if module:
        words += say(", in {module}", module=show_name(module)) + (
            say(" in {count} of {held}", count=number(count), held=number(len(held))) if count < len(held) else ""
        )
    return words


def _shared(held: Sequence[BatchRow], everywhere: Counter[Setting], known: int) -> str:
    """What every run of the group has and few others have, in words. ``everywhere``: how many of all runs have a setting;
    ``known``: of how many runs any is known."""
    others = known - sum(bool(r.summary.settings) for r in held)
    if len(held) < 2 or not others:
        return ""
    common = [
        (name, value)
        for name, value in held[0].summary.settings.items()
        if all(r.summary.settings.get(name) == value for r in held)
    ]
    told = [
        f"{_setting(name)} {number(int(value) if isinstance(value, float) and value.is_integer() else value)}"
        for name, value in common
        if everywhere[name, value] - len(held) <= TELLING * others
    ]
    more = (
        say(" and {settings}", settings=plural(len(told) - MOST_SHARED, "more setting"))
        if len(told) > MOST_SHARED
        else ""
    )
    return say("in common: {settings}{more}", settings=say(", ").join(told[:MOST_SHARED]), more=more) if told else ""


def _setting(name: str) -> str:
    """A setting as a reader calls it: what the recorder has seen in our words, what a script was given as it is."""
    return say(name) if name in SEEN.values() else show_name(name)

"""Put named curves into steps, param_groups and metrics: which of them is the loss of the training, its rate, its gradient norm.

A curve becomes a column of `steps` only where its name, or the person who imports it, leaves no doubt. All others, and
everything about evaluation, are metrics. Step numbers stay as the file has them. Losses of several players, as of an actor
and a critic, are rows of several optimizers; terms of one loss, as of a detector, are added up.
"""

import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from ..errors import ImportFileError
from .curve_names import EVALUATION, TERMS, best_loss, is_evaluation, no_loss, parts_of, plainest, words_of
from .target import RunTarget


class Point(NamedTuple):
    """One value of a curve; ``time_ns`` is null where nobody wrote it down."""

    step: int
    value: float
    time_ns: int | None = None


Curves = Mapping[str, Sequence[Point]]
ByStep = dict[int, Point]

_TRAILING = 3
"""Rows at the end that must all lack a finite gradient norm before it is no step that a loss scaler has skipped."""

_MOST_LOSSES = 8
"""Losses of unknown kind that are taken for losses of their own; more are a table of something else."""

_LEARNT = 0.9
"""Share of its first values below which a loss has been learnt from."""


class LossRole(NamedTuple):
    """One loss of a training and the curves that it is the sum of."""

    name: str
    curves: tuple[str, ...]
    which: tuple[str, ...] = ()


def put_curves(target: RunTarget, source: Path, rank: int, curves: Curves, kind: str) -> str:
    """Add the curves of one rank to the target. Returns what they were taken for, in a few words."""
    given = {name: points for name, points in curves.items() if points}
    _refuse_unknown(target, source, given)
    losses = [loss for loss in _losses(target, given) if not _says_nothing(given, loss.curves)]
    rates = _rates(target, given)
    norm = next(iter(plainest(given, "grad_norm")), None)
    scale = next(iter(plainest(given, "loss_scale")), None)
    by_step = {name: {p.step: p for p in points} for name, points in given.items()}  # a later point replaces an earlier
    sums = [_sum_of([by_step[name] for name in loss.curves]) for loss in losses]
    others = {"grad_norm": by_step[norm] if norm else {}, "loss_scale": by_step[scale] if scale else {}}
    lr_steps = {step for names in rates for name in names for step in by_step[name]}
    steps = sorted(set().union(*sums) or others["grad_norm"] or lr_steps or set().union(*by_step.values()))
    if others["grad_norm"]:
        others["grad_norm"] = _norms_that_count(sums[0] if sums else {}, others["grad_norm"], steps)
    for n, loss in enumerate(sums):
        for point in loss.values():
            number = n if len(sums) > 1 else None
            target.refuse_another(rank, point.step, source, {"loss": point.value}, optimizer_id=number)
    _put_steps(target, source, rank, steps, sums, others)
    _put_rates(target, rank, steps, rates, by_step, several=len(losses) > 1)
    columns = {name for loss in losses if len(loss.curves) == 1 for name in loss.curves} | {scale}
    columns |= {name for names in rates for name in names}
    for name, points in given.items():
        for point in points if name not in columns else ():
            row = {"rank": rank, "step": point.step, "time_ns": point.time_ns or 0, "value": point.value}
            shown = _metric_name(target, name)
            target.add("metrics", {**row, "name": shown, "source": kind, "logged_step": point.step})
    if not losses:
        target.without_loss.setdefault(str(source), []).extend(sorted(given))
    return _say_what_was_found(steps, losses, rates, norm, scale, given)


def _refuse_unknown(target: RunTarget, source: Path, given: Curves) -> None:
    """Raise where an option names a column that no file has so far and this one does not have."""
    asked = {"--loss": target.choices.loss, "--lr": target.choices.lr, "--metric": target.choices.metric}
    for option, names in asked.items():
        for name in names:
            target.chosen_columns.setdefault(f"{option} {name}", []).extend([str(source)] if name in given else [])
    target.columns_seen.extend(name for name in given if name not in target.columns_seen)


def check_choices(target: RunTarget) -> None:
    """Raise ImportFileError for an option that names a column which none of the files has."""
    for option, files in target.chosen_columns.items():
        if not files:
            shown = ", ".join(sorted(target.columns_seen)[:48])
            raise ImportFileError(f"{option}: no file has this column; there are {shown or 'none'}")


def _metric_name(target: RunTarget, name: str) -> str:
    """A curve that was named with --metric is one of an evaluation, whatever it is called."""
    return f"eval/{name}" if name in target.choices.metric and not is_evaluation(name) else name


# -- which curve is what ----------------------------------------------------------------------------------------------------


def _losses(target: RunTarget, given: Curves) -> list[LossRole]:
    """The losses among the curves: as asked for, else the loss as a whole, else those of the players, else the sum of terms."""
    if target.choices.loss:
        return [LossRole(name, (name,)) for name in target.choices.loss if name in given]
    names = [name for name in given if name not in target.choices.metric]
    whole = best_loss(names, [len(given[name]) for name in names])
    if whole is not None and not _is_summary(given, names, whole):
        return [LossRole(whole, (whole,))]
    parts = {name: parts_of(name) for name in names}
    players = [name for name in names if parts[name].family == "player" and len(given[name]) > 1]
    if players:
        return [LossRole(name, (name,), parts[name].which) for name in players[:_MOST_LOSSES]]
    terms = [name for name in names if parts[name].family == "term" and len(given[name]) > 1]
    if terms and all(TERMS.intersection(parts[name].which) for name in terms):
        return [LossRole(" + ".join(terms), tuple(terms))]
    if 0 < len(terms) <= _MOST_LOSSES:
        return [LossRole(name, (name,), parts[name].which) for name in terms]
    return [LossRole(whole, (whole,))] if whole is not None else []


def _says_nothing(given: Curves, names: Sequence[str]) -> bool:
    """Whether a loss is zero in every row while the gradients are numbers: a column that nobody filled. A Trainer that logs a
    loss of zero beside a gradient norm of NaN has lost its loss."""
    if any(point.value != 0 for name in names for point in given[name]) or len(given[names[0]]) < _TRAILING:
        return False
    norms = [point.value for name in plainest(given, "grad_norm") for point in given[name]]
    return all(map(math.isfinite, norms))


def take_evaluation_for_loss(target: RunTarget) -> None:
    """Where a run has no training loss at all but that of one evaluation, that is what is judged; an event says so."""
    if not target.without_loss or any("loss" in row for row in target.known_steps()):
        return
    rows = [row for row in target.rows_of("metrics") if _is_evaluation_loss(row["name"])]
    names = {row["name"] for row in rows}
    if len(names) != 1 or len(rows) < _TRAILING:
        return
    for row in rows:
        target.step(row["rank"], row["step"], Path(row["name"]), time_ns=row["time_ns"] or None, loss=row["value"])
    target.without_loss.clear()
    target.event("loss-from-evaluation", f"No training loss was logged: {names.pop()} is judged in its place.")


def _is_evaluation_loss(name: str) -> bool:
    words = tuple(word for word in words_of(name) if word not in EVALUATION)
    return is_evaluation(name) and parts_of(" ".join(words)).family == "loss"


def _is_summary(given: Curves, names: Sequence[str], whole: str) -> bool:
    """Whether what looks like the loss is one number at the end, beside losses that were logged all along."""
    longest = max((len(given[n]) for n in names if parts_of(n).family in {"player", "term"}), default=0)
    return len(given[whole]) == 1 and longest > _TRAILING


def _rates(target: RunTarget, given: Curves) -> list[list[str]]:
    """The learning rates: those of the groups of one optimizer together, the optimizers after one another."""
    asked = [name for name in target.choices.lr if name in given]
    if asked:
        return [asked]
    found = plainest(given, "lr")
    numbered = sorted((name for name in found if parts_of(name).which), key=lambda name: (len(name), name))
    own = [name for name in numbered if not parts_of(name).which[0].isdigit()]
    if own:
        return [[name] for name in own]
    plain = [name for name in found if not parts_of(name).which]
    groups = [name for name in numbered if len(given[name]) == len(given[numbered[0]])]
    if plain and (not groups or len(given[plain[0]]) >= len(given[groups[0]])):
        return [[max(plain, key=lambda name: len(given[name]))]]
    return [groups] if groups else []


# -- into the tables --------------------------------------------------------------------------------------------------------


def _sum_of(terms: Sequence[ByStep]) -> ByStep:
    if len(terms) == 1:
        return terms[0]
    steps = set(terms[0]).intersection(*terms[1:])
    return {s: Point(s, sum(t[s].value for t in terms), terms[0][s].time_ns) for s in steps}


def _put_steps(
    target: RunTarget,
    source: Path,
    rank: int,
    steps: Sequence[int],
    losses: Sequence[ByStep],
    others: Mapping[str, ByStep],
) -> None:
    for step in steps:
        found = {name: by_step[step] for name, by_step in others.items() if step in by_step}
        for n, by_step in enumerate(losses or [{}]):
            if n and step not in by_step:
                continue
            mine = dict(found) if n == 0 else {}
            if step in by_step:
                mine["loss"] = by_step[step]
            if not mine and len(losses) > 1:
                continue
            times = [p.time_ns for p in mine.values() if p.time_ns is not None]
            target.step(
                rank,
                step,
                source,
                optimizer_id=n if len(losses) > 1 else None,
                time_ns=min(times, default=None),
                **{column: p.value for column, p in mine.items()},
            )


def _put_rates(
    target: RunTarget,
    rank: int,
    steps: Sequence[int],
    rates: Sequence[Sequence[str]],
    by_step: Mapping[str, ByStep],
    *,
    several: bool,
) -> None:
    for optimizer, names in enumerate(rates):
        for group, name in enumerate(names):
            for step, point in sorted(by_step[name].items()):
                row = {"rank": rank, "step": step, "optimizer_id": optimizer, "group_id": group}
                target.add("param_groups", {**row, "lr": point.value})
    if several and len(rates) < 2 and steps:  # the views count optimizers by this table
        for optimizer in range(len(rates), 2):
            target.add("param_groups", {"rank": rank, "step": steps[0], "optimizer_id": optimizer, "group_id": 0})


def _norms_that_count(losses: ByStep, norms: ByStep, steps: Sequence[int]) -> ByStep:
    """The norms without those that are not finite and say nothing: a step that a loss scaler has left out, or a norm that was
    never measured while the loss was learnt from."""
    broken = [step for step in norms if not math.isfinite(norms[step].value)]
    if not broken:
        return norms
    if len(broken) == len(norms) and _was_learnt(losses, steps):
        return {}
    last_norm = max((s for s in norms if math.isfinite(norms[s].value)), default=-1)
    last_loss = max((s for s in losses if math.isfinite(losses[s].value)), default=-1)
    lost = {s for s in broken if _lost_for_good(losses, last_norm, last_loss, steps, s)}
    return {s: p for s, p in norms.items() if math.isfinite(p.value) or s in lost}


def _was_learnt(losses: ByStep, steps: Sequence[int]) -> bool:
    values = [losses[s].value for s in steps if s in losses]
    few = max(1, len(values) // 5)
    if len(values) < 2 * _TRAILING or not all(math.isfinite(v) for v in values):
        return False
    first, last = math.fsum(values[:few]) / few, math.fsum(values[-few:]) / few
    return first > 0 and 0 < last < _LEARNT * first


def _lost_for_good(losses: ByStep, last_norm: int, last_loss: int, steps: Sequence[int], step: int) -> bool:
    """Whether a gradient norm that is not finite is more than a step that a loss scaler has left out: no finite norm, or no
    finite loss, comes after it."""
    at = bisect_left(steps, step)
    soon = [losses[s].value for s in steps[at : at + _TRAILING] if s in losses]
    if last_loss <= step and not all(map(math.isfinite, soon)):
        return True
    return last_norm < step and len(steps) - at >= _TRAILING


# -- what was found, in words -------------------------------------------------------------------------------------------------


def _say_what_was_found(
    steps: Sequence[int],
    losses: Sequence[LossRole],
    rates: Sequence[Sequence[str]],
    norm: str | None,
    scale: str | None,
    given: Curves,
) -> str:
    taken = [("loss", loss.name) for loss in losses]
    taken += [("lr", ", ".join(names)) for names in rates]
    taken += [(column, name) for column, name in (("grad_norm", norm), ("loss_scale", scale)) if name is not None]
    words = [f"{column} from {name}" if column != name else column for column, name in taken]
    used = {n for loss in losses for n in loss.curves} | {n for names in rates for n in names} | {norm, scale}
    others = len(set(given) - used)
    said = f"{len(steps)} steps" + (f" ({', '.join(words)})" if words else "")
    said += f", {others} other curves" if others else ""
    if losses or all(is_evaluation(name) for name in given):
        return said
    return f"{said}; {no_loss(given)}"

"""Whether a start from the checkpoint of a rehearsed epoch goes on as the start went on that saved it.

Both make the steps after the checkpoint. What was restored is the same in both: weights to the bit, learning rates, the counters
of optimizer state, averages of weights. The data need not be: many scripts draw them anew.
"""

from pathlib import Path
from typing import Any

from ...analyzer import Trace
from ...schemas.files.rehearsed import Moment, StateValue, read_state
from ..text.language import say
from ..text.wording import number, plural
from .preflight_facts import Fact

_SAME = 1e-5
"""Relative distance of two sums over the same values: loading changes no bit, and adding in another order less."""

_FARTHER = {True: 1.001, False: 1.25}
"""Times the distance of an average from its model, or less than its inverse, from which it is another one; by whether the model
has moved the same way. Arithmetic: the same steps give the same distance, but for rounding. Convention: other batches change it
by a tenth in a few steps."""

_ANEW = 2.0
"""The same for a start that nobody has told to resume. Convention of this project: a copy made anew lies at most half as far."""


def resumed(saved: Path, loaded: Path, since: int, *, by_itself: bool = False) -> list[Fact]:
    """``saved``: the run whose epoch ended after ``since`` steps, and went on; ``loaded``: the start from its checkpoint.
    ``by_itself``: the script has looked for the checkpoint, nobody has told it to resume. Then what differs counts only where it
    is what it was in the very first step."""
    with Trace(saved) as before, Trace(loaded) as after:
        made = after.sql("SELECT count(*) AS n FROM steps WHERE completed").item()
        if not made:
            error = after.exit.exception if after.exit is not None else None
            words = say("The second start made no step from the checkpoint.")
            if error is not None:
                words += " " + say("It raised {error}.", error=f"{error.type}: {error.message}"[:200])
            return [("resume", "resume", "failed", words)]
        if not after.has("checkpoints"):
            return [("resume", "resume", "failed", say("The second start loaded nothing."))]
        first = before.sql(
            "SELECT min(step) AS s FROM steps WHERE completed AND step >= $since", {"since": since}
        ).item()
        if first is None:
            return [
                ("resume", "resume", "untried", say("not tried: nothing followed the checkpoint that was rehearsed"))
            ]
        wrong = [
            fact
            for judge in (_weights, _optimizers, _schedulers, _copies)
            for fact in judge(before, after, first, by_itself)
        ]
        if wrong:
            return [("resume", name, "failed", words) for name, words in wrong]
        same = _batches(before, first) == _batches(after, 0)
    words = (
        say("A start that finds the script's own checkpoint goes on with the same weights and learning rates.")
        if by_itself
        else say(
            "A start from the rehearsed checkpoint goes on with the same weights, learning rates and optimizer state."
        )
    )
    words += " " + (
        say("Its data go on too.") if same else say("Its data are other ones: their order is not restored.")
    )
    return [("resume", "resume", "passed", words)]


def state_kept(rehearsed: Path) -> list[Fact]:
    """Whether what the script keeps in its own objects goes on: what had changed by the checkpoint, and is after loading what it
    was at the very beginning."""
    first, then, now = (read_state(rehearsed, moment) for moment in _MOMENTS)
    anew = [
        name
        for name, value in then.items()
        if name in first and name in now and value.digest != first[name].digest == now[name].digest
    ]
    if not anew:
        return []
    words = say(
        "{name} begins anew: it is {now} after loading, and was {then} where the checkpoint was saved. {others}Save it with the"
        " weights, and load it.",
        name=anew[0],
        now=_shown(now[anew[0]]),
        then=_shown(then[anew[0]]),
        others=say("{names} too. ", names=", ".join(anew[1:5])) if len(anew) > 1 else "",
    )
    return [("resume", "state not restored", "doubtful", words)]


def _shown(value: StateValue) -> str:
    if value.digest == "None":
        return "None"
    mean = say("not finite") if value.mean is None else number(value.mean, 4)
    return mean if value.size == 1 else say("{mean} in the mean of {count} elements", mean=mean, count=value.size)


_LOOKED_AT_BEFORE = (
    "SELECT (SELECT min(time_ns) FROM events WHERE event = 'model-found') < (SELECT max(time_ns) FROM checkpoints"
    " WHERE action = 'weights' AND step = (SELECT min(step) FROM steps)) AS before"
)

_MOMENTS: tuple[Moment, ...] = ("first", "then", "now")

_SUMS = (
    "SELECT tensor, numel, any_value(sum) AS sum, any_value(sum_sq) AS sum_sq FROM stats"
    " WHERE rank = 0 AND kind = 'parameter' AND phase = $phase AND step = $step GROUP BY tensor, numel"
    " HAVING count(*) = 1 ORDER BY tensor"
)


def _weights(before: Trace, after: Trace, first: int, anew: bool) -> list[tuple[str, str]]:
    """Weights after the last step before the checkpoint, and those that the first step after loading began with."""
    if after.sql(_LOOKED_AT_BEFORE).item():
        return []  # a model that computed before it was loaded was measured then
    then = {r["tensor"]: r for r in before.rows(_SUMS, {"phase": "optimizer", "step": first - 1})}
    now = {r["tensor"]: r for r in after.rows(_SUMS, {"phase": "forward", "step": 0})}
    both = [name for name in then if name in now and then[name]["numel"] == now[name]["numel"]]
    other = [name for name in both if not _alike(then[name], now[name])]
    if anew:
        began = {r["tensor"]: r for r in before.rows(_SUMS, {"phase": "forward", "step": 0})}
        other = [name for name in other if name in began and _alike(began[name], now[name])]
    if not other:
        return []
    words = say(
        "{count} of {all} after loading are not those that were saved, first {name}.",
        count=len(other),
        all=plural(len(both), "weight tensor"),
        name=other[0],
    )
    return [("weights not restored", words)]


def _alike(one: dict[str, Any], other: dict[str, Any]) -> bool:
    scale = (float(one["sum_sq"] or 0) * float(one["numel"])) ** 0.5
    squares = abs(float(one["sum_sq"] or 0) - float(other["sum_sq"] or 0)) <= _SAME * max(
        float(one["sum_sq"] or 0), 1e-12
    )
    return squares and abs(float(one["sum"] or 0) - float(other["sum"] or 0)) <= _SAME * max(scale, 1e-12)


def _optimizers(before: Trace, after: Trace, first: int, anew: bool) -> list[tuple[str, str]]:
    """Learning rate and step counter of each group in the first step after the checkpoint."""
    query = (
        "SELECT optimizer_id, group_id, lr, state_step FROM param_groups WHERE rank = 0 AND step = $step ORDER BY ALL"
    )
    then = {(r["optimizer_id"], r["group_id"]): r for r in before.rows(query, {"step": first})}
    now = {(r["optimizer_id"], r["group_id"]): r for r in after.rows(query, {"step": 0})}
    began = {(r["optimizer_id"], r["group_id"]): r for r in before.rows(query, {"step": 0})}
    found: dict[str, str] = {}
    for key in sorted(then.keys() & now.keys()):
        one, two = then[key], now[key]
        first_of = began.get(key) if anew else two
        if first_of is None:
            continue
        counted = one["state_step"], two["state_step"]
        if None not in counted and counted[0] != counted[1] == first_of["state_step"]:
            words = say(
                "The optimizer's state has counted {now} after loading, and {then} where the checkpoint was saved: its"
                " moments begin anew.",
                now=plural(int(two["state_step"]), "step"),
                then=plural(int(one["state_step"]), "step"),
            )
            found.setdefault("optimizer's state not restored", words)
        rates = one["lr"], two["lr"], first_of["lr"]
        if None not in rates and _apart(rates[0], rates[1]) and not _apart(rates[2], rates[1]):
            words = say(
                "The learning rate is {now} after loading, and {then} where the checkpoint was saved: the schedule does not go"
                " on.",
                now=number(two["lr"], 6),
                then=number(one["lr"], 6),
            )
            found.setdefault("schedule not restored", words)
    return list(found.items())


def _apart(one: float, other: float) -> bool:
    return abs(one - other) > _SAME * abs(one)


def _schedulers(before: Trace, after: Trace, first: int, anew: bool) -> list[tuple[str, str]]:
    """How many steps each scheduler has counted by the first step after the checkpoint."""
    query = "SELECT scheduler_id, scheduler, last_epoch FROM schedulers WHERE rank = 0 AND step = $step ORDER BY ALL"
    then = {r["scheduler_id"]: r["last_epoch"] for r in before.rows(query, {"step": first})}
    began = {r["scheduler_id"]: r["last_epoch"] for r in before.rows(query, {"step": 0})}
    for row in after.rows(query, {"step": 0}):
        was = then.get(row["scheduler_id"])
        if anew and began.get(row["scheduler_id"]) != row["last_epoch"]:
            continue
        if was is not None and row["last_epoch"] is not None and was != row["last_epoch"]:
            words = say(
                "{scheduler} has counted {now} after loading, and {then} where the checkpoint was saved: the schedule begins"
                " anew.",
                scheduler=row["scheduler"],
                now=plural(int(row["last_epoch"]), "step"),
                then=plural(int(was), "step"),
            )
            return [("schedule not restored", words)]
    return []


def _copies(before: Trace, after: Trace, first: int, anew: bool) -> list[tuple[str, str]]:
    """How far averages of the weights are from them, as many steps after the checkpoint in both."""
    query = (
        "SELECT name, step - $first AS since, distance, moved, model_moved FROM copies WHERE rank = 0 AND step >= $first"
        " AND distance IS NOT NULL ORDER BY step, name"
    )
    then = {(r["name"], r["since"]): r for r in before.rows(query, {"first": first})}
    for row in after.rows(query, {"first": 0}):
        was = then.get((row["name"], row["since"]))
        if was is None:
            continue
        moved = row["model_moved"] or 0.0
        alike = moved > 0 and abs(moved - (was["model_moved"] or 0.0)) <= _SAME * moved
        apart = sorted((row["distance"], was["distance"]))
        if anew and (row["distance"] > was["distance"] or not was["moved"]):
            continue  # one that was made anew lies nearer to the weights; one that stands still may be set to them at any time
        farther = max(_FARTHER[alike], 1.0 if alike or not anew else _ANEW)
        if apart[1] > farther * max(apart[0], _SAME):
            words = say(
                "{name} is {now} of the weights' size away from them after loading, and {then} where the checkpoint was saved: it"
                " begins anew.",
                name=row["name"],
                now=number(row["distance"], 4),
                then=number(was["distance"], 4),
            )
            return [("copy not restored", words)]
    return []


def _batches(trace: Trace, step: int) -> list[int]:
    """Fingerprints of the first batch of a step."""
    rows = trace.rows(
        "SELECT fingerprint FROM batches WHERE rank = 0 AND step = $step AND phase <> 'eval' AND fingerprint IS NOT NULL"
        " AND microbatch = 0 ORDER BY field, fingerprint",
        {"step": step},
    )
    return [r["fingerprint"] for r in rows]

"""What the recorded steps themselves answer: data, determinism of two starts, resume, and the cost ahead."""

import shutil
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import polars as pl

from ...analyzer import Finding, Trace, Verdict, diagnose, rules_for
from ...analyzer.compare.divergence import compare_tensors
from ...analyzer.errors import AnalyzerError
from ...schemas.files.layout import RUN_JSON
from ...schemas.files.probe_report import ProbeResult
from ..text.language import say
from ..text.wording import duration, number, plural, size

Fact = tuple[str, str, str, str]
"""Area, name, outcome and words."""

_WARM_UP = 3
"""Steps before times are taken: the first ones allocate and compile."""

_RESUME_RULES = {"lr-jump-on-resume", "optimizer-state-lost", "replayed-after-resume", "nonfinite-weights-loaded"}

ASKED = {"DA011", "DA018", "DA020", "DA030", "DA032"}
"""Advice on data that is worth an answer before a long run: raw values of a scale of tens and hundreds, a sampler that leaves
most of them out, workers that draw the same in each epoch."""


def asked(advice: Finding) -> bool:
    """Whether advice on data is a question before a long run; not where its samples may be alike by chance."""
    return advice.code in ASKED and not any(row.get("by_chance") for row in advice.evidence[:1])


def data(trace: Trace, verdict: Verdict) -> list[Fact]:
    """The batches that were seen: samples, labels, repetitions, the spread of the inputs."""
    facts: list[Fact] = []
    for cause in [*verdict.causes, *verdict.symptoms]:
        if cause.code.startswith("DA"):
            # advice for a run under way is a question before one
            outcome = "failed" if verdict.verdict == "anomalous" else "doubtful" if asked(cause) else "passed"
            facts.append(("data", cause.name, outcome, f"{cause.code} {cause.name}: {cause.message}"))
    fields = trace.sql(
        "SELECT b.field, any_value(b.role) AS role, any_value(b.shape) AS shape, any_value(b.dtype) AS dtype, count(*) AS n,"
        " sum(b.batch_size) AS samples, sum(s.sum) / nullif(sum(s.numel), 0) AS mean,"
        " sqrt(greatest(sum(s.sum_sq) / nullif(sum(s.numel), 0) - power(sum(s.sum) / nullif(sum(s.numel), 0), 2), 0)) AS std,"
        " min(s.min) AS low, max(s.max) AS high, count(DISTINCT b.fingerprint) AS different"
        " FROM batches b LEFT JOIN tensor_stats s ON s.rank = b.rank AND s.step = b.step AND s.seq = b.seq"
        " WHERE b.rank = 0 AND b.phase <> 'eval' GROUP BY b.field ORDER BY min(b.step), min(b.seq) LIMIT 6"
    )
    for row in fields.iter_rows(named=True):
        words = say(
            "{field} ({role}): {batches}, mean {mean}, spread {std}, from {low} to {high}.",
            field=row["field"],
            role=row["role"],
            batches=plural(int(row["n"]), "batch", "batches"),
            mean=number(row["mean"], 3),
            std=number(row["std"], 3),
            low=number(row["low"], 3),
            high=number(row["high"], 3),
        )
        if row["n"] > 2 and row["different"] == 1:
            words += " " + say("All of them are the same batch.")
        facts.append(("data", str(row["field"]), "passed", words))
    labels = trace.sql(
        "SELECT field, label_counts, classes, coalesce(ignored_count, 0) AS ignored FROM batches"
        " WHERE label_counts IS NOT NULL AND rank = 0 ORDER BY step LIMIT 200"
    )
    facts += _label_facts([(str(f), list(c)) for f, c, _, _ in labels.iter_rows()])
    facts += _shifted_labels(labels)
    return facts


def _label_facts(rows: list[tuple[str, list[int]]]) -> list[Fact]:
    totals: dict[str, list[int]] = {}
    for name, counts in rows:
        total = totals.setdefault(name, [])
        total.extend([0] * (len(counts) - len(total)))
        for i, count in enumerate(counts):
            total[i] += count
    facts: list[Fact] = []
    for name, total in list(totals.items())[:2]:
        seen = sum(1 for n in total if n)
        words = say(
            "{field}: {seen} of {classes} classes were seen, the most frequent makes up {share}.",
            field=name,
            seen=seen,
            classes=len(total),
            share=f"{max(total) / max(sum(total), 1):.0%}",
        )
        facts.append(("data", f"{name} labels", "passed", words))
    return facts


def _shifted_labels(labels: pl.DataFrame) -> list[Fact]:
    """Labels of which the last class never occurs while some are ignored: as if one had been taken from each, 0 too."""
    facts: list[Fact] = []
    for (name,), rows in labels.group_by(["field"], maintain_order=True):
        classes, most = rows["classes"].max(), max((len(c) for c in rows["label_counts"]), default=0)
        total = [sum(c[i] for c in rows["label_counts"] if len(c) > i) for i in range(most)]
        counted, ignored = sum(total), int(rows["ignored"].sum())
        if not isinstance(classes, int) or most != classes - 1 or not all(total) or ignored == 0:
            continue
        if counted >= _ENOUGH_LABELS * classes:
            words = say(
                "{field}: class {last} of {classes} is never a target, and {ignored} targets are ignored: are labels that begin"
                " at 0 moved down by one?",
                field=str(name),
                last=classes - 1,
                classes=classes,
                ignored=ignored,
            )
            facts.append(("data", f"{name} labels moved", "doubtful", words))
    return facts


_ENOUGH_LABELS = 100
"""Labels for each class that were seen, after which a class that has not come is rare or is none."""

_LOADS = "SELECT count(*) AS n FROM checkpoints WHERE action <> 'saved'"


def _files(trace: Trace, action: str) -> set[str]:
    return set(
        trace.sql("SELECT path FROM checkpoints WHERE action = $action AND path IS NOT NULL", {"action": action})[
            "path"
        ]
    )


def determinism(trace: Trace, again: Path, most: int = 1_000_000, *, hidden: bool = False) -> list[Fact]:
    """The first steps of two starts of the script, ``most`` at most, tensor by tensor. ``hidden``: checkpoints of the first start
    were hidden from the second."""
    name = "two starts"
    try:
        with Trace(again) as other:
            last = other.sql("SELECT max(step) AS s FROM steps WHERE completed").item()
            if last is None and hidden:
                words = say(
                    "not tried: the second start made no step without the checkpoint that the first one had written"
                )
                return [("determinism", name, "untried", words)]
            if last is None:
                return [("determinism", name, "doubtful", say("The second start made no step."))]
            first = trace.sql("SELECT min(step) AS s FROM steps").item()
            last = min(int(last), int(first or 0) + most - 1)
            found_again = _files(other, "read") - _files(other, "saved")
            if found_again & _files(trace, "saved") or other.sql(_LOADS).item() > trace.sql(_LOADS).item():
                # a script that looks for its checkpoint finds the one that its first start has written
                words = say("not tried: the second start went on from a checkpoint that the first one had written")
                return [("determinism", name, "untried", words)]
            found = compare_tensors(trace, other, int(first or 0), int(last))
            alike = trace.sql(_GENERATORS).rows(), other.sql(_GENERATORS).rows()
    except AnalyzerError as e:
        return [("determinism", name, "untried", say("not tried: {error}", error=str(e)))]
    seeded = trace.sql("SELECT bool_or(seeded) AS s FROM ranks").item()
    steps = plural(int(last) - int(first or 0) + 1, "step")
    if found.exact is None:
        return [("determinism", name, "passed", say("Two starts agree to the bit in {steps}.", steps=steps))]
    place = f"{found.exact.kind} {found.exact.name}"
    if found.beyond is None:
        words = say(
            "Two starts agree but for rounding in {steps}; the first to differ is {what} at step {step}.",
            steps=steps,
            what=place,
            step=found.exact.step,
        )
        return [("determinism", name, "passed", words)]
    words = say("Two starts differ from step {step} on, first in {what}.", step=found.beyond.step, what=place)
    if seeded:
        return [("determinism", name, "doubtful", words + " " + say("The script sets a seed: something else draws."))]
    if others := _seeded_otherwise(*alike):
        words += " " + say("The script seeds {generators}, but not torch.", generators=" and ".join(others))
        return [("determinism", name, "doubtful", words)]
    return [("determinism", name, "passed", words + " " + say("No seed is set."))]


_GENERATORS = "SELECT python_rng, numpy_rng FROM ranks WHERE rank = 0"


def _seeded_otherwise(first: list[tuple[Any, ...]], second: list[tuple[Any, ...]]) -> list[str]:
    """Generators in one state in two starts when training began. Each process begins with another one, as the system gives it:
    the script has seeded them."""
    names = ("random", "numpy.random")
    states = zip(names, next(iter(first), ()), next(iter(second), ()), strict=False)
    return [name for name, one, two in states if one is not None and one == two]


def rate_in_use(trace: Trace) -> list[Fact]:
    """The learning rate of the recorded steps beside what the optimizer was made with, where no scheduler moved it meanwhile."""
    row: dict[str, Any] = trace.sql(
        "SELECT max(g.lr) AS lr, max(json_extract(g.settings, '$.initial_lr')::DOUBLE) AS made, count(DISTINCT g.step) AS n,"
        " (SELECT sum(scheduler_steps) FROM steps) AS moves FROM param_groups g"
    ).row(0, named=True)
    lr, made = row["lr"], row["made"]
    if not lr or not made or row["moves"] or lr >= made / _FAR_BELOW:
        return []
    words = say(
        "The learning rate was {lr} in all {steps}, far below the optimizer's {made}, and no scheduler was stepped: is a warm-up"
        " in steps stepped by the epoch?",
        lr=number(lr, 3),
        made=number(made, 3),
        steps=plural(int(row["n"]), "step"),
    )
    return [("learning rate", "rate in use", "doubtful", words)]


_FAR_BELOW = 1000.0
"""Over it a rate trains nothing: what a schedule ends at."""


def resume(run: Path) -> list[Fact]:
    """A run of two attempts: what the second one loaded, and whether it goes on where the first one ended."""
    with Trace(run) as trace:
        verdict = diagnose(trace, rules_for(run, None))
        attempts = trace.sql("SELECT max(attempt) AS n FROM attempts").item()
        loaded = trace.sql(
            "SELECT string_agg(DISTINCT action, ', ' ORDER BY action) AS a FROM checkpoints"
            " WHERE action <> 'saved' AND step >= (SELECT max(first_step) FROM attempts)"
        ).item()
        steps = trace.sql(
            "SELECT count(*) AS n FROM steps WHERE step >= (SELECT max(first_step) FROM attempts) AND completed"
        ).item()
        error = trace.exit.exception if trace.exit is not None else None
    if not steps and error is not None and error.type == "FileNotFoundError":
        words = say(
            "not tried: there was no checkpoint yet ({error}). The first steps save none: train until one is saved, and run"
            " preflight once more.",
            error=error.message[:160],
        )
        return [("resume", "resume", "untried", words)]
    if (attempts or 1) < 2 or not steps:
        return [("resume", "resume", "failed", say("The second start made no step from the checkpoint."))]
    if not loaded:
        return [("resume", "resume", "failed", say("The second start loaded nothing."))]
    bad = [f for f in [*verdict.causes, *verdict.symptoms] if f.name in _RESUME_RULES]
    if bad:
        return [("resume", f.name, "failed", f"{f.code} {f.name}: {f.message}") for f in bad]
    return [("resume", "resume", "passed", say("The second start loaded its state ({what}) and went on.", what=loaded))]


_WAITING = 0.3
"""Share of a step that waits for data from which it is doubted. Convention: dataloader-bound (PE001) advises from it on."""

_WAIT_NS = 5e7
"""Nanoseconds of such a wait that are worth a question: 50 ms are 14 hours of a million steps."""


def cost(
    trace: Trace, total_steps: int | None, read: ProbeResult | None = None, again: Path | None = None
) -> list[Fact]:
    """Time of the whole run, memory and its trend, what waits for data, and what checkpoints take.

    ``read``: what the script's loops say of the length of the run. ``again``: a start in which ends of epochs were rehearsed.
    """
    if total_steps is None and read is not None:
        total_steps = int(read.values["steps"])
    row: dict[str, Any] = trace.sql(
        "SELECT median(step_ns) AS step_ns, sum(data_wait_ns) / nullif(sum(step_ns), 0) AS waiting,"
        " sum(data_wait_ns) / nullif(sum(step_ns - coalesce(recorder_ns, 0)), 0) AS waiting_net,"
        " median(data_wait_ns) AS wait_ns, max(rss_bytes) AS rss,"
        " max(cuda_peak_bytes) AS cuda, regr_slope(rss_bytes, step) AS slope, count(*) AS n, median(recorder_ns) AS recorder"
        " FROM steps WHERE rank = 0 AND completed AND step >= $warm",
        {"warm": _WARM_UP},
    ).row(0, named=True)
    facts: list[Fact] = []
    if row["step_ns"]:
        own = float(row["step_ns"]) - float(row["recorder"] or 0)
        words = say("{step} a step without recording", step=duration(own))
        if total_steps:
            words += say(", {total} for {steps}", total=duration(own * total_steps), steps=plural(total_steps, "step"))
        if row["waiting"] is not None:
            words += say(", {share} of it waiting for data", share=f"{float(row['waiting']):.0%}")
        facts.append(("cost", "time", "passed", words + say(".")))
        if float(row["waiting_net"] or 0) >= _WAITING and row["wait_ns"] >= _WAIT_NS:
            words = say(
                "{wait} of each step, {share}, wait for data: give the DataLoader workers, or compute once what each sample"
                " computes again.",
                wait=duration(float(row["wait_ns"])),
                share=f"{float(row['waiting_net']):.0%}",
            )
            facts.append(("cost", "waiting for data", "doubtful", words))
    if row["rss"]:
        words = say("At most {memory} of memory", memory=size(row["rss"]))
        if row["cuda"]:
            words += say(", {memory} on the device", memory=size(row["cuda"]))
        facts.append(("cost", "memory", "passed", words + say(".")))
    removes = read is None or bool(read.values.get("removes"))
    facts += _checkpoints(trace, total_steps, removes=removes) or _each_epoch(again, total_steps, removes=removes)
    return facts


_OF_THE_DISK = 0.5
"""Share of the free disk that checkpoints may take. Arithmetic: a second run of this kind fills the rest."""
_SAVES = 3
"""Saves that show an interval: two distances that are equal."""


def _checkpoints(trace: Trace, total_steps: int | None, *, removes: bool) -> list[Fact]:
    """What checkpoints take, and all of them that go to a new path each, at an even distance; beside one that is written over."""
    saved = trace.sql(
        "SELECT step, path, bytes FROM checkpoints WHERE action = 'saved' AND rank = 0 AND path IS NOT NULL AND bytes > 0"
        " ORDER BY step, time_ns"
    ).rows(named=True)
    if not saved:
        return []
    largest = max(int(row["bytes"]) for row in saved)
    words = say("A checkpoint takes {size}.", size=size(largest))
    times_saved = Counter(row["path"] for row in saved)
    kept = [row for row in saved if times_saved[row["path"]] == 1]
    apart = {int(b["step"]) - int(a["step"]) for a, b in pairwise(kept)}
    if not total_steps or len(kept) < _SAVES or len(apart) != 1 or apart == {0}:
        return [("cost", "checkpoints", "passed", words)]
    return _all_kept(kept, total_steps // apart.pop(), total_steps, removes=removes)


def _each_epoch(again: Path | None, total_steps: int | None, *, removes: bool) -> list[Fact]:
    """Checkpoints of the ends of epochs, where two were rehearsed and each has saved to a file of its own."""
    if again is None or not total_steps or not (again / RUN_JSON).exists():
        return []
    with Trace(again) as trace:
        saved = trace.sql(
            "SELECT step, path, max(bytes) AS bytes, count(*) AS times FROM checkpoints WHERE action = 'saved' AND rank = 0"
            " AND path IS NOT NULL AND bytes > 0 GROUP BY step, path ORDER BY step"
        ).rows(named=True)
        batches = trace.sql(
            "SELECT max(loader_batches) AS n FROM batches WHERE rank = 0 AND phase <> 'eval' AND loader_batches IS NOT NULL"
        ).item()
    places = Counter(row["path"] for row in saved)
    kept = [row for row in saved if places[row["path"]] == 1]
    if not batches or len({row["step"] for row in kept}) < 2 or len(kept) != len({row["step"] for row in kept}):
        return []
    return _all_kept(kept, total_steps // int(batches), total_steps, removes=removes)


def _all_kept(kept: list[dict[str, Any]], times: int, total_steps: int, *, removes: bool) -> list[Fact]:
    """So many files as these, against the free disk."""
    largest = max(int(row["bytes"]) for row in kept)
    words = say(
        "Each checkpoint of {size} is a new file: {count} of them in {steps} take {all}, if none is removed.",
        size=size(largest),
        count=times,
        steps=plural(total_steps, "step"),
        all=size(times * largest),
    )
    try:
        free = shutil.disk_usage(Path(kept[-1]["path"]).absolute().parent).free
    except OSError:
        return [("cost", "checkpoints", "passed", words)]
    if times * largest <= _OF_THE_DISK * (free + len(kept) * largest) or removes:
        return [("cost", "checkpoints", "passed", words)]
    words += say(" {free} of that disk are free: keep the newest few and the best.", free=size(free))
    return [("cost", "checkpoints", "doubtful", words)]

"""The scoreboard: how often the verdict is right, measured on every fault script, its healthy twin and the odd healthy runs.

    python tests/corpus/scoreboard.py --runs FOLDER            record what is missing, judge everything, print
    python tests/corpus/scoreboard.py --runs FOLDER --publish  also write docs/scoreboard.md
    python tests/corpus/scoreboard.py --runs FOLDER --minutes 30  stop then, and say what was left out
    python tests/corpus/scoreboard.py --runs FOLDER --options "--every 8"  record with options of `firstfault run`

Without options it records as `firstfault run` does by itself, under the default budget. A recording is made once for each
(script, seed, onset) and kept in FOLDER, so a stopped run goes on where it was. The verdict is made anew each time. Take another
FOLDER for other options, and after a change of the recorder.

Seed 0 is the split used while rules are developed; the others are only reported.
"""

import hashlib
import os
import re
import shutil
import sys
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer
from firstfault.analyzer import AnalyzerError, Trace, Verdict, diagnose
from rich.console import Console
from rich.progress import Progress

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parent))
import forked
from peers import PEERS, fired
from suite import BLIND, ENVIRONMENT, ODD, TRUTHS, any_of, step_of

ONSETS = {0: 14, 1: 11, 2: 17, 3: 20}
"""Seed → step at which the fault begins, where a script lets it begin at any."""

NEVER = 1_000_000
"""An onset that no script reaches: the same script as its own healthy twin."""

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True, order=True)
class Case:
    """One recording: a script with a fault, its healthy twin, or an odd healthy run."""

    kind: str
    script: str
    seed: int
    onset: int

    @property
    def folder(self) -> str:
        """Name of its run folder; changes with the script's text."""
        text = hashlib.blake2b(self.file.read_bytes(), digest_size=4).hexdigest()
        return f"{self.kind}-{self.script}-{self.seed}-{self.onset}-{text}"

    @property
    def file(self) -> Path:
        """The file that holds the script."""
        return ODD[self.script] if self.kind == "odd" else TRUTHS[self.script][0]


class Judged(msgspec.Struct):
    """What the verdict said of a case, and how right that was; None where the truth does not say."""

    kind: str
    script: str
    seed: int
    verdict: str
    causes: list[str]
    loud: list[str]
    peers: list[str] = []
    truth: list[str] = []
    detected: bool | None = None
    top1: bool | None = None
    top3: bool | None = None
    step: bool | None = None
    step_error: int | None = None
    module: bool | None = None


def cases(seeds: list[int]) -> list[Case]:
    """Everything that is recorded for these seeds."""
    found: list[Case] = []
    for seed in seeds:
        onset = ONSETS.get(seed, 10 + seed)
        for script, (_, truth) in TRUTHS.items():
            found.append(Case("fault", script, seed, truth.get("onset", onset)))
            if str(truth.get("step")).startswith("s") and not truth.get("no_twin"):
                found.append(Case("twin", script, seed, NEVER))
        found += [Case("odd", script, seed, 0) for script in ODD]
    return sorted(found)


def judge(case: Case, runs: Path, given: Sequence[str] = ()) -> Judged:
    """Record the case if it has not been, and compare the verdict with the truth."""
    run = runs / case.folder
    if not (run / "exit.json").exists():
        shutil.rmtree(run, ignore_errors=True)
        numbers = [str(case.seed)] if case.kind == "odd" else [str(case.onset), str(case.seed)]
        options = TRUTHS[case.script][1].get("options", []) if case.kind != "odd" else []
        command = [sys.executable, "-m", "firstfault", "run", "--quiet", "--out", str(run), *options, *given]
        environment = {**ENVIRONMENT, "OMP_NUM_THREADS": "1"}
        forked.run([*command, str(case.file), *numbers], env=environment, timeout=600)
    with Trace(run, threads=1) as trace:
        verdict = diagnose(trace)
        peers = fired(trace)
    loud = [f.name for f in verdict.causes if f.severity != "warning"]
    judged = Judged(case.kind, case.script, case.seed, verdict.verdict, [f.name for f in verdict.causes], loud, peers)
    if case.kind == "fault":
        _compare(judged, verdict, TRUTHS[case.script][1], case.onset)
    return judged


def _compare(judged: Judged, verdict: Verdict, truth: dict[str, Any], onset: int) -> None:
    judged.truth = any_of(truth["name"])
    names = [f.name for f in verdict.causes]
    quiet = "healthy" in any_of(truth.get("verdict"))  # advice: a warning is what is wanted
    judged.detected = bool(set(names) & set(judged.truth)) if quiet else verdict.verdict == "anomalous"
    judged.top1 = bool(names) and names[0] in judged.truth
    judged.top3 = bool(set(names[:3]) & set(judged.truth))
    right = next((f for f in verdict.causes if f.name in judged.truth), None)
    if "step" in truth:
        wanted = step_of(truth, onset)
        judged.step = right is not None and right.step == wanted
        judged.step_error = abs(right.step - wanted) if right is not None else None
    if "module" in truth:
        judged.module = right is not None and right.module in any_of(truth["module"])


def share(values: list[bool | None]) -> tuple[int, int]:
    """How many are true, of how many that are known."""
    known = [v for v in values if v is not None]
    return sum(known), len(known)


def summary(judged: list[Judged]) -> dict[str, Any]:
    """The figures of one split."""
    faults = [j for j in judged if j.kind == "fault"]
    figures: dict[str, Any] = {
        name: share([getattr(j, name) for j in faults]) for name in ("detected", "top1", "top3", "step", "module")
    }
    for kind in ("twin", "odd"):
        of_kind = [j for j in judged if j.kind == kind]
        figures[f"false_{kind}"] = (sum(j.verdict == "anomalous" for j in of_kind), len(of_kind))
    errors = Counter(j.step_error for j in faults if j.step_error is not None)
    figures["step_errors"] = dict(sorted(errors.items()))
    return figures


def per_rule(judged: list[Judged]) -> dict[str, dict[str, int]]:
    """For each name: how often it was the truth and found, how often it was a cause and not the truth."""
    counts: dict[str, dict[str, int]] = defaultdict(lambda: {"found": 0, "missed": 0, "wrong": 0})
    for j in judged:
        for name in dict.fromkeys(j.truth):
            if name in j.causes:
                counts[name]["found"] += 1
            elif not set(j.truth) & set(j.causes):
                counts[name]["missed"] += 1
        for name in j.loud:
            if name not in j.truth:
                counts[name]["wrong"] += 1
    return {name: counts[name] for name in sorted(counts)}


def page(splits: dict[str, list[Judged]], left: Mapping[str, int]) -> str:
    """The generated page; ``left`` counts cases of each kind that were not judged."""
    out = [
        "<!-- generated by `python tests/corpus/scoreboard.py --publish`; do not edit -->",
        "# Scoreboard",
        "",
        "Every script of `tests/corpus/` recorded and judged. `developed` is the seed on which rules are worked out,",
        "`reported` are seeds and onsets on which they are only measured. A twin is the same script whose fault never",
        "begins; an odd run is healthy and looks otherwise. Most scripts were written beside the rules, some blind.",
        "",
        "| | " + " | ".join(splits) + " |",
        "|---|" + "---|" * len(splits),
    ]
    figures = {name: summary(judged) for name, judged in splits.items()}
    seeds = defaultdict(set)
    for j in splits.get("reported", []):
        if j.kind == "fault":
            seeds[j.script].add(j.seed)
    often = Counter(len(s) for s in seeds.values())
    labels = {
        "detected": "detected",
        "top1": "exact cause first",
        "top3": "exact cause among the first three",
        "step": "step exact",
        "module": "module exact",
        "false_twin": "false alarms on twins",
        "false_odd": "false alarms on odd healthy runs",
    }
    for key, label in labels.items():
        row = [f"{a} of {n}" + (f" ({a / n:.3f})" if n else "") for a, n in (f[key] for f in figures.values())]
        out.append(f"| {label} | " + " | ".join(row) + " |")
    times = ", ".join(f"{scripts} with {count}" for count, scripts in sorted(often.items(), reverse=True))
    out += [
        "",
        f"Scripts with a fault in the reported split, by the number of their seeds and onsets: {times or 'none'}.",
    ]
    if left:
        kinds = ", ".join(f"{count} of kind {kind}" for kind, count in sorted(left.items()))
        out += ["", f"Not judged: {kinds}."]
    for name, f in figures.items():
        steps = ", ".join(f"{error}: {count}" for error, count in f["step_errors"].items())
        out += ["", f"Steps between truth and answer, {name} (steps: cases): {steps or 'none'}."]
    everything = [j for judged in splits.values() for j in judged]
    out += _by_origin(everything)
    out += ["", "## Each name, all splits", "", "| name | found | missed | named wrongly |", "|---|---|---|---|"]
    for name, c in per_rule(everything).items():
        out.append(f"| {name} | {c['found']} | {c['missed']} | {c['wrong']} |")
    out += _beside(everything)
    out += ["", "## What was not right", ""]
    wrong = [j for j in everything if _wrong(j)]
    out += [f"- {_sentence(j)}" for j in wrong] or ["Nothing."]
    return "\n".join(out) + "\n"


def _by_origin(judged: list[Judged]) -> list[str]:
    """The figures of scripts that were written without a look at the rules, beside those of the others."""
    kinds = {"beside the rules": [j for j in judged if j.script not in BLIND]}
    kinds["blind"] = [j for j in judged if j.script in BLIND]
    out = ["", "## Written blind, and beside the rules", ""]
    out += [
        "A blind script was written without a look at the rules. Rules have been changed after its first verdict.",
        "",
    ]
    out += [
        "| scripts | exact cause first | false alarms on twins | false alarms on odd healthy runs |",
        "|---|---|---|---|",
    ]
    for name, of_kind in kinds.items():
        figures = summary(of_kind)
        shares = (figures[key] for key in ("top1", "false_twin", "false_odd"))
        out.append(
            f"| {name} | " + " | ".join(f"{a} of {n}" + (f" ({a / n:.3f})" if n else "") for a, n in shares) + " |"
        )
    return out


def _beside(judged: list[Judged]) -> list[str]:
    """What thresholds of other tools say of the same recordings."""
    faults = [j for j in judged if j.kind == "fault"]
    healthy = [j for j in judged if j.kind != "fault"]
    if not faults or not healthy:
        return []
    out = [
        "",
        "## Beside the thresholds of other tools",
        "",
        "Their documented defaults, held against the same recordings (`tests/corpus/peers.py`). `right kind`: the alarm can mean",
        "the fault that is there. None of them names step, module or cause.",
        "",
        "| rule | default | alarms on faults | right kind | alarms on healthy runs |",
        "|---|---|---|---|---|",
    ]
    for peer in PEERS:
        alarms = [j for j in faults if peer.name in j.peers]
        right = sum(bool(peer.means & set(j.truth)) for j in alarms)
        false = sum(peer.name in j.peers for j in healthy)
        place = f"| [{peer.name}]({peer.source}) | {peer.default} "
        out.append(f"{place}| {len(alarms)} of {len(faults)} | {right} | {false} of {len(healthy)} |")
    means = {p.name: p.means for p in PEERS}
    any_right = sum(any(means[p] & set(j.truth) for p in j.peers) for j in faults)
    any_false = sum(bool(j.peers) for j in healthy)
    any_alarm = sum(bool(j.peers) for j in faults)
    out.append(f"| all together | | {any_alarm} of {len(faults)} | {any_right} | {any_false} of {len(healthy)} |")
    found = sum(bool(j.detected) for j in faults)
    named = sum(bool(j.top1) for j in faults)
    alarms = sum(j.verdict == "anomalous" for j in healthy)
    out.append(
        f"| firstfault | | {found} of {len(faults)} | {named} (exact cause first) | {alarms} of {len(healthy)} |"
    )
    return out


def _wrong(j: Judged) -> bool:
    if j.kind != "fault":
        return j.verdict == "anomalous"
    return not all(v in {True, None} for v in (j.detected, j.top1, j.step, j.module))


def _sentence(j: Judged) -> str:
    said = ", ".join(j.causes) or "nothing"
    if j.kind != "fault":
        return f"`{j.script}` ({j.kind}, seed {j.seed}) is healthy, was called {j.verdict}: {said}"
    failed = [n for n in ("detected", "top1", "step", "module") if getattr(j, n) is False]
    return f"`{j.script}` (seed {j.seed}): {', '.join(failed)} not right; truth {' or '.join(j.truth)}, said {said}"


def main(
    runs: Annotated[Path, typer.Option(help="Where recordings are kept; a stopped run goes on from there.")],
    seeds: Annotated[str, typer.Option(help="Seeds, separated by commas; 0 is the developed split.")] = "0,1,2,3",
    only: Annotated[str, typer.Option(help="Only scripts whose folder:name matches this pattern.")] = "",
    jobs: Annotated[int, typer.Option(help="Recordings at a time.")] = os.cpu_count() or 1,
    recorded: Annotated[bool, typer.Option("--recorded", help="Judge what has been recorded; record nothing.")] = False,
    publish: Annotated[bool, typer.Option("--publish", help="Write the page and the JSON into the checkout.")] = False,
    options: Annotated[str, typer.Option(help="Options of `firstfault run` for all recordings.")] = "",
    minutes: Annotated[float | None, typer.Option(help="Begin nothing new after so many minutes.")] = None,
) -> None:
    """Measure the verdict."""
    runs.mkdir(parents=True, exist_ok=True)
    todo = [c for c in cases([int(s) for s in seeds.split(",")]) if re.search(only, f"{c.file.parent.name}:{c.script}")]
    wanted = todo
    if recorded:
        todo = [c for c in todo if (runs / c.folder / "exit.json").exists()]
    done: dict[Case, Judged] = {}
    console = Console(stderr=True)
    with ProcessPoolExecutor(jobs) as pool, Progress(console=console) as progress:
        bar = progress.add_task("verdicts", total=len(todo))
        futures = {pool.submit(judge, case, runs, options.split()): case for case in todo}
        with suppress(TimeoutError):
            for future in as_completed(futures, None if minutes is None else 60 * minutes):
                case = futures[future]
                progress.advance(bar)
                try:
                    done[case] = future.result()
                except AnalyzerError as e:  # a recording that was broken off: it counts as not judged
                    progress.console.print(str(e))
                    continue
                if _wrong(done[case]):
                    progress.console.print(_sentence(done[case]))
        pool.shutdown(cancel_futures=True)
    ordered = [done[c] for c in sorted(done)]
    splits = {"developed": [j for j in ordered if j.seed == 0], "reported": [j for j in ordered if j.seed != 0]}
    splits = {name: judged for name, judged in splits.items() if judged}
    text = page(splits, Counter(c.kind for c in wanted if c not in done))
    print(text.split("\n## Each name")[0])
    if publish:
        (ROOT / "docs" / "scoreboard.md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    typer.run(main)

"""Proves the corpus: is the true cause confirmed, and a planted wrong one refuted? One line of JSON for each script.

    python tests/corpus/proving.py FOLDER [--only NAME]... [--limit N] [--healthy] [--demo] [--forks]
    python tests/corpus/proving.py FOLDER --summary

Every script whose truth has an intervention is recorded and proved; then a cause that it does not have is planted.
With ``--forks`` scripts start as forks of a process that has torch: what is proven is the same, seconds are fewer.
"""

import json
import os
import resource
import statistics
import subprocess
import sys
import time
from collections import Counter
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated, Any
from unittest.mock import patch

import typer
from firstfault.reports.demo_script.train_gpt import FAULTS
from firstfault.reports.reruns import rerun_script
from firstfault.reports.reruns.prove import Prover, fixes
from firstfault.reports.text.errors import ReportError
from suite import ENVIRONMENT, ODD, TRUTHS, any_of

sys.path.insert(0, str(Path(__file__).parents[1]))
import forked

PLANTED = ("lr-spike", "fully-masked-attention-row", "fp16-overflow")
"""Causes whose interventions cure nothing else; the first that the script does not have is planted."""

PLANTED_SLOW = ("weight-decay-dominates", "optimizer-eps-underflow")
"""The same for a fault whose only sign is how the loss goes."""

LINES = "proving.jsonl"

_forks: list[forked.Process] = []
"""Scripts that have started as forks, whose processor time the kernel does not add up here."""

DEMO = Path(__file__).parents[2] / "reports" / "demo_script" / "train_gpt.py"


def one_of_each(scripts: dict[str, Any]) -> list[str]:
    """Scripts with a single rank and a true cause that can be tried, rules in turn: the first of each, then the second."""
    by_rule: dict[str, list[str]] = {}
    for name, (file, truth) in scripts.items():
        known = [n for n in any_of(truth["name"]) if n in fixes()]
        if (
            known
            and not truth.get("options")
            and truth.get("verdict", "anomalous") == "anomalous"
            and "torchrun" not in file.read_text()
        ):
            by_rule.setdefault(known[0], []).append(name)
    rounds = max(map(len, by_rule.values()))
    return [names[i] for i in range(rounds) for names in by_rule.values() if i < len(names)]


def prove_script(
    script: str, file: Path, truth: dict[str, Any], folder: Path, *, forks: bool = False
) -> dict[str, Any]:
    """Record and prove one script."""
    began, cpu = time.monotonic(), _cpu()
    run = folder / script
    command = [sys.executable, "-m", "firstfault", "run", "--quiet", "--budget", "off", "--out", str(run), str(file)]
    arguments = truth.get("arguments") or ([str(truth.get("onset", 14))] if truth else [])
    if not run.exists() and forks:
        _fork([*command, *arguments], ENVIRONMENT).wait()
    elif not run.exists():
        subprocess.run([*command, *arguments], capture_output=True, check=False, env=ENVIRONMENT)
    said: dict[str, Any] = {"script": script, "truth": any_of(truth.get("name", []))}
    try:
        prover = Prover(run, 90, lambda _: None, bisect=False)
        said["named"] = [f.name for f in [*prover.verdict.causes, *prover.verdict.symptoms]]
        proof = prover.prove()
        said |= {"reproduced": proof.reproduced, "sign": proof.sign, "proven": proof.proven, "note": proof.note}
        said["unasked"] = any(proof.proven.get(name) == "confirmed" for name in said["truth"])
        if not said["unasked"]:  # the verdict is not on trial here: the true cause is tried by its name too
            said["asked"] = {
                n: prover.prove(n).proven.get(n) for n in said["truth"] if n in fixes() and n not in proof.proven
            }
        said["confirmed"] = said["unasked"] or "confirmed" in said.get("asked", {}).values()
        said["tried"] = [[t.intervention, t.gone, t.value] for t in proof.tried]
        said["seconds"], said["reruns"] = (
            round(time.monotonic() - began, 1),
            len(list(prover.folder.glob("*/run.json"))),
        )
        said["cpu"] = round(_cpu() - cpu, 1)
        said["bytes"] = sum(f.stat().st_size for f in prover.folder.rglob("*") if f.is_file())
        slow = proof.sign not in {"nonfinite", "crash", "jump", "gradient", "dip"}
        kinds = (*PLANTED_SLOW, *PLANTED) if slow else PLANTED
        wrong = [p for p in kinds if p not in said["named"] and p not in said["truth"]]
        if proof.reproduced or not truth:
            said["planted"] = {p: prover.prove(p).proven.get(p) for p in wrong[: 1 if truth else 3]}
    except ReportError as e:
        said["error"] = str(e)
    return said


def _cpu() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(u.ru_utime + u.ru_stime for u in used) + sum(fork.processor_s for fork in _forks)


def _fork(command: list[str], environment: dict[str, str], folder: Path | None = None) -> forked.Process:
    _forks.append(forked.Process(command, folder, environment))
    return _forks[-1]


def summary(folder: Path) -> None:
    """Print what the lines add up to."""
    rows = [json.loads(line) for line in (folder / LINES).read_text().splitlines()]
    faulty = [r for r in rows if r["truth"]]
    healthy = [r for r in rows if not r["truth"]]
    unasked = sum(bool(r.get("unasked", r.get("confirmed"))) for r in faulty)
    print(
        f"faults {len(faulty)}: true cause confirmed {sum(bool(r.get('confirmed')) for r in faulty)}, unasked {unasked}"
    )
    wrong = [
        r for r in faulty if any((r.get("proven", {}) | r.get("asked", {})).get(n) == "refuted" for n in r["truth"])
    ]
    print(f"  true cause refuted {len(wrong)}: {', '.join(r['script'] for r in wrong)}")
    false = [
        r for r in faulty if any(how == "confirmed" and n not in r["truth"] for n, how in r.get("proven", {}).items())
    ]
    print(f"  another cause confirmed {len(false)}: {', '.join(r['script'] for r in false)}")
    planted = Counter(how for r in faulty for how in r.get("planted", {}).values())
    print(f"  planted {planted.total()}: {dict(planted)}")
    confirmed = [
        r["script"] for r in healthy if "confirmed" in [*r.get("proven", {}).values(), *r.get("planted", {}).values()]
    ]
    print(f"healthy {len(healthy)}: confirmed in {len(confirmed)} {confirmed}")
    proved = [r for r in faulty if r.get("reruns")]
    if proved:
        for what in ("reruns", "seconds", "cpu", "bytes"):
            values = sorted(r[what] for r in proved)
            print(f"  {what}: median {statistics.median(values)}, largest {values[-1]}")
    for r in faulty:
        if not r.get("confirmed"):
            print("  missed", r["script"], r["truth"], r.get("sign"), r.get("proven"), r.get("note") or r.get("error"))


def main(
    folder: Path,
    only: Annotated[list[str] | None, typer.Option()] = None,
    limit: Annotated[int, typer.Option()] = 1000,
    healthy: Annotated[bool, typer.Option("--healthy")] = False,
    demo: Annotated[bool, typer.Option("--demo", help="The demo's own faults instead of the corpus.")] = False,
    forks: Annotated[bool, typer.Option("--forks", help="Start scripts as forks of a process with torch.")] = False,
    summed: Annotated[bool, typer.Option("--summary")] = False,
) -> None:
    """Prove scripts of the corpus."""
    if summed:
        return summary(folder)
    os.environ.update(ENVIRONMENT)
    if forks:
        starts = patch.object(
            rerun_script, "_start", lambda command, environment, s: _fork(command, environment, s.folder)
        )
    else:
        starts = nullcontext()
    folder.mkdir(parents=True, exist_ok=True)
    told = folder / LINES
    done = {json.loads(line)["script"] for line in told.read_text().splitlines()} if told.exists() else set()
    todo: dict[str, tuple[Path, dict[str, Any]]] = {}
    if healthy:
        todo = {name: (ODD[name], {}) for name in sorted(ODD)}
    elif demo:
        for name in FAULTS[1:]:
            cause = {"shape-error": "shape-or-dtype-error", "killed": "killed-by-signal"}.get(name, name)
            arguments = ["--fault", name, "--fault-step", "24", "--steps", "36"]
            todo[f"demo-{name}"] = DEMO, {"name": cause, "arguments": arguments}
    else:
        todo = {name: TRUTHS[name] for name in one_of_each(TRUTHS)}
    for name in [n for n in todo if not only or n in only][:limit]:
        if name not in done:
            file, truth = todo[name]
            with starts:
                line = json.dumps(prove_script(name, file, truth, folder, forks=forks))
            with told.open("a") as out:
                out.write(line + "\n")
    return None


if __name__ == "__main__":
    typer.run(main)

"""Proves the corpus: is the true cause confirmed, and a planted wrong one refuted? One line of JSON for each script.

    python tests/corpus/proving.py FOLDER [--only NAME]... [--healthy]

Every script whose truth has an intervention is recorded and proved; then a cause that it does not have is planted.
"""

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Annotated, Any

import typer
from firstfault.reports.reruns.prove import Prover, fixes
from firstfault.reports.text.errors import ReportError
from suite import ENVIRONMENT, ODD, TRUTHS, any_of

PLANTED = ("lr-spike", "fully-masked-attention-row", "fp16-overflow")
"""Causes whose interventions cure nothing else; the first that the script does not have is planted."""


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


def prove_script(script: str, file: Path, truth: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Record and prove one script."""
    began = time.monotonic()
    run = folder / script
    command = [sys.executable, "-m", "firstfault", "run", "--quiet", "--out", str(run), str(file)]
    arguments = [str(truth.get("onset", 14))] if truth else []
    if not run.exists():
        subprocess.run([*command, *arguments], capture_output=True, check=False, env=ENVIRONMENT)
    said: dict[str, Any] = {"script": script, "truth": any_of(truth.get("name", []))}
    try:
        prover = Prover(run, 90, lambda _: None, bisect=False)
        proof = prover.prove()
        said |= {"reproduced": proof.reproduced, "sign": proof.sign, "proven": proof.proven}
        said["confirmed"] = any(proof.proven.get(name) == "confirmed" for name in said["truth"])
        said["tried"] = [[t.intervention, t.gone] for t in proof.tried]
        named = {f.name for f in [*prover.verdict.causes, *prover.verdict.symptoms]}
        planted = next((p for p in PLANTED if p not in named and p not in said["truth"]), None)
        if planted is not None and (proof.reproduced or not truth):
            said["planted"] = {planted: prover.prove(planted).proven.get(planted)}
    except ReportError as e:
        said["error"] = str(e)
    said["seconds"] = round(time.monotonic() - began, 1)
    return said


def main(
    folder: Path,
    only: Annotated[list[str] | None, typer.Option()] = None,
    limit: Annotated[int, typer.Option()] = 1000,
    healthy: Annotated[bool, typer.Option("--healthy")] = False,
) -> None:
    """Prove scripts of the corpus."""
    os.environ.update(ENVIRONMENT)
    names = sorted(ODD) if healthy else one_of_each(TRUTHS)
    folder.mkdir(parents=True, exist_ok=True)
    for name in [n for n in names if not only or n in only][:limit]:
        file, truth = (ODD[name], {}) if healthy else TRUTHS[name]
        line = json.dumps(prove_script(name, file, truth, folder))
        with (folder / "proving.jsonl").open("a") as out:
            out.write(line + "\n")


if __name__ == "__main__":
    typer.run(main)

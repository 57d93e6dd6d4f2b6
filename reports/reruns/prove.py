"""`firstfault prove`: the fix of each candidate, tried in a re-run of the script, confirms or refutes it.

The script is started as it was recorded, with nothing changed, until the sign of the fault is there again; then once for each
intervention that the candidates' rules name, until one takes the sign away: that cause is confirmed. Where none does, it is
refuted. Where the run has a snapshot from before the fault, re-runs go on from there, if the fault comes back that way.
"""

import shutil
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from ...analyzer import Finding, Trace, Verdict, diagnose, rules_for
from ...schemas.files.layout import RUN_JSON
from ...schemas.files.probe_report import ProbePlan
from ...schemas.files.proof import PROOF_JSON, Proof, Tried, write_proof
from ...schemas.files.snapshot import REENTRY_STEPS, read_meta, snapshot_path, snapshots
from ..text.errors import ReportError
from ..text.language import say
from .prove_signs import NUMBERS, WINDOW, Sign, is_gone, sign_of
from .rerun_script import Script, finish, record

TABLE = Path(__file__).with_name("interventions.toml")
_MOST_CANDIDATES = 4
_SUDDEN = {"nonfinite", "crash", "jump", "gradient", "dip"}
"""Signs that show within a few steps; the others are of the whole training."""
_HISTORY = 8
"""Steps that a re-run has before the place: medians and largest values are taken of them."""
_BISECTIONS = 7
"""Re-runs in which the samples of a bad batch are halved: enough for 128."""


@dataclass(frozen=True, slots=True)
class Fix:
    """What a rule's cause is tried by."""

    confirm: tuple[str, ...]
    refute: tuple[str, ...] = ()
    at_start: bool = False
    sign: str = "auto"
    refutes: bool = True
    """Whether the cause is refuted where none of its interventions takes the sign away."""


@cache
def fixes() -> dict[str, Fix]:
    """Name of a rule → its interventions."""
    table: dict[str, dict[str, Any]] = tomllib.loads(TABLE.read_text(encoding="utf-8"))
    return {
        name: Fix(
            tuple(e["confirm"]),
            tuple(e.get("refute", ())),
            e.get("from") == "start",
            e.get("sign", "auto"),
            e.get("refutes", True),
        )
        for name, e in table.items()
    }


class Prover:
    """Re-runs of one recorded script."""

    def __init__(self, run: Path, seconds: float, told: Callable[[str], None], *, bisect: bool = True) -> None:
        self.run = run
        self.seconds = seconds
        self.told = told
        self.bisect = bisect
        self.folder = run / "prove"
        self._done: dict[tuple[str, int, Sign, str], Tried] = {}
        self._runs: dict[tuple[str, int, int | None, str], tuple[Path, int]] = {}
        """Folders of re-runs, and the step to which each was made."""
        self._entry: dict[Sign, int | None] = {}
        """Sign → the step of the snapshot from which it comes back; None for the start of the script."""
        with Trace(run) as trace:
            self.verdict: Verdict = diagnose(trace, rules_for(run, None))
            self.script = script_of(trace)
            self.last_step = int(trace.sql("SELECT max(step) AS s FROM steps").item() or 0)

    def prove(self, candidate: str | None = None) -> Proof:
        """Try the candidates, in the verdict's order, until one is confirmed. Raises ReportError for an unknown candidate."""
        candidates = self._candidates(candidate)
        if not candidates:
            return Proof(
                reproduced=None, sign="none", step=None, value=None, note=say("No cause is named: nothing to prove.")
            )
        proof = Proof(reproduced=None, sign="none", step=None, value=None)
        tried_one = False
        unseen: list[str] = []
        for finding in candidates:
            fix = fixes().get(finding.name)
            if fix is None:
                continue
            sign = self._sign(finding, fix)
            if (sign.kind == "learning" and fix.sign == "auto") or (sign.value is None and sign.kind in NUMBERS):
                unseen.append(finding.name)
                continue
            base = self._base(sign, fix, self._step(finding, sign))
            proof.reproduced = (proof.reproduced or False) or base.gone is False
            if not tried_one:
                proof.sign, proof.step, proof.value = sign.kind, sign.step, sign.value
            tried_one = True
            if base.gone is not False:
                continue
            result = self._judge(finding, fix, sign)
            if result is not None:
                proof.proven[finding.name] = "confirmed" if result else "refuted"
            if result and candidate is None:
                if self.bisect and "batch-replaced" in fix.confirm:
                    proof.smallest = self._fewest_samples(sign, finding)
                break
        if unseen and not tried_one:
            proof.note = say(
                "{names}: nothing of it shows beyond what the rule looks at, so that no fix can be seen to work.",
                names=", ".join(unseen),
            )
        elif not tried_one:
            proof.note = say("No intervention is known for {names}.", names=", ".join(f.name for f in candidates))
        elif not proof.reproduced:
            proof.note = say(
                "The fault did not come back: it is not deterministic, or what the script read has changed."
            )
        proof.tried = list(self._done.values())
        return proof

    def _candidates(self, name: str | None) -> list[Finding]:
        found = [*self.verdict.causes, *self.verdict.symptoms]
        if name is None:
            return [f for f in found if f.severity != "warning"][:_MOST_CANDIDATES]
        chosen = [f for f in found if name in {f.name, f.code}]
        if chosen:
            return chosen[:1]
        if name not in fixes():
            raise ReportError(f"{self.run}: there is no candidate {name!r}; known are {', '.join(sorted(fixes()))}")
        return [_planted(name, found[0] if found else None)]

    def _base(self, sign: Sign, fix: Fix, step: int) -> Tried:
        """The re-run with nothing changed: from a snapshot where one is there and shows the sign, else from the start."""
        if sign not in self._entry:
            self._entry[sign] = None
            if not fix.at_start and sign.kind in _SUDDEN:
                self._entry[sign] = before_step(self.run, step)
            if self._entry[sign] is not None:
                base = self._try("nothing", sign, 0)
                if base.gone is False:
                    return base
                self._entry[sign] = None
        elif fix.at_start:
            self._entry[sign] = None
        return self._try("nothing", sign, 0)

    def _sign(self, finding: Finding, fix: Fix) -> Sign:
        with Trace(self.run) as trace:
            return sign_of(trace, finding.step, "auto" if fix.sign == "any" else fix.sign)

    def _judge(self, finding: Finding, fix: Fix, sign: Sign) -> bool | None:
        """True confirmed, False refuted, None where an intervention did not come to its end or left something in between."""
        step = 0 if fix.at_start else self._step(finding, sign)
        outcomes: list[bool | None] = []
        for name in fix.confirm:
            outcomes.append(self._try(name, sign, step).gone)
            if outcomes[-1]:
                return not any(self._try(other, sign, step).gone for other in fix.refute)
        return False if fix.refutes and None not in outcomes else None

    def _step(self, finding: Finding, sign: Sign) -> int:
        steps = [s for s in (finding.step_lower, finding.step, sign.step) if s is not None]
        return min(steps, default=0)

    def _try(self, name: str, sign: Sign, step: int, **values: Any) -> Tried:
        after = self._entry.get(sign)
        key = (name, step, sign, f"{after} {values}")
        known = self._done.get(key)
        if known is not None:
            return known
        last = self._last(sign)
        out = self._again(name, step, after, last, values)
        tried = Tried(intervention=name, step=step, sign=sign.kind, value=None, gone=None, after=after, values=values)
        if (out / RUN_JSON).exists():
            with Trace(out) as trace:
                tried.gone, tried.value = is_gone(sign, trace, last=last, since=-1 if after is None else after)
        if tried.gone is None:
            tried.why = say("the re-run ended before the place")
        self._done[key] = tried
        return tried

    def _again(self, name: str, step: int, after: int | None, last: int, values: dict[str, Any]) -> Path:
        """The folder of a re-run to a step at least: one that was made for another sign does as well."""
        key = (name, step, after, str(values))
        made = self._runs.get(key)
        if made is not None and made[1] >= last:
            return made[0]
        self.told(say("re-run with {intervention}", intervention=name))
        out = self.folder / f"{len(self._runs):02d}-{last}-{name}"
        shutil.rmtree(out, ignore_errors=True)
        place = {} if after is None else {"skipped": after + 1 - REENTRY_STEPS}
        plan = ProbePlan(folder=str(out) + ".plan", intervention=name, step=step, values=values | place)
        snapshot = None if after is None else snapshot_path(self.run, after)
        again = record(self.script, out, steps=last + 1, seconds=self.seconds, plan=plan, again=True, snapshot=snapshot)
        finish(again, self.seconds)
        self._runs[key] = out, last
        return out

    def _last(self, sign: Sign) -> int:
        if sign.kind not in _SUDDEN or sign.step is None:
            return self.last_step
        return min(sign.step + WINDOW, max(self.last_step, sign.step + 2))

    def _fewest_samples(self, sign: Sign, finding: Finding) -> list[int] | None:
        """Halve the samples of the batch: a half whose replacement takes the sign away is halved again."""
        step = self._step(finding, sign)
        whole = self._try("batch-replaced", sign, step)
        with Trace(self.run) as trace:
            size = trace.sql(
                "SELECT max(batch_size) AS n FROM batches WHERE step = $step AND role = 'input'", {"step": step}
            ).item()
        if not whole.gone or not size or size < 2:
            return None
        samples = list(range(int(size)))
        for _ in range(_BISECTIONS):
            if len(samples) == 1:
                break
            half = samples[: len(samples) // 2]
            if self._try("batch-replaced", sign, step, samples=half).gone:
                samples = half
            elif self._try("batch-replaced", sign, step, samples=samples[len(half) :]).gone:
                samples = samples[len(half) :]
            else:
                break
        return samples if len(samples) < int(size) else None


def before_step(run: Path, step: int) -> int | None:
    """The newest snapshot that leaves a re-run some steps of history before the one where the intervention begins."""
    return next(
        (s for s, path in reversed(snapshots(run)) if s < step - _HISTORY and read_meta(path) is not None), None
    )


def _planted(name: str, beside: Finding | None) -> Finding:
    """A candidate that no rule named, at the place of the one that was."""
    at: dict[str, Any] = {field: getattr(beside, field, None) for field in ("step", "step_lower", "microbatch", "seq")}
    return Finding(
        code="-",
        name=name,
        severity="error",
        confidence=None,
        confidence_cases=0,
        **at,
        rank=0,
        phase="",
        module=None,
        tensor=None,
        signal="",
        value=None,
        message="",
        fix="",
        evidence=[],
        sql="",
        explains=[],
    )


def script_of(trace: Trace) -> Script:
    """The script that a run recorded, as it was started. Raises ReportError where it is not here any more."""
    manifest = trace.manifest
    folder = Path(manifest.cwd)
    rest = list(manifest.argv[1:])
    module = rest[:1] == ["-m"]
    rest = rest[1:] if module else rest
    if not rest or not folder.is_dir() or (not module and not (folder / rest[0]).exists()):
        raise ReportError(
            f"{trace.path}: its script is not here any more ({' '.join(manifest.argv[1:3])}); prove runs it again"
        )
    return Script(rest[0], tuple(rest[1:]), module, folder)


def prove(
    run: Path, candidate: str | None = None, seconds: float = 600.0, told: Callable[[str], None] = lambda _: None
) -> tuple[Proof, Verdict]:
    """Prove a run's causes and leave the proof in its folder."""
    (run / PROOF_JSON).unlink(missing_ok=True)
    prover = Prover(run, seconds, told)
    proof = prover.prove(candidate)
    write_proof(run, proof)
    shutil.rmtree(prover.folder, ignore_errors=True)
    return proof, prover.verdict

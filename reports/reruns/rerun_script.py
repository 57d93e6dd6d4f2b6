"""Run a script again: recorded and ended early, or with a plan of probes or an intervention in its environment."""

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import msgspec

from ...schemas.files.layout import RUN_JSON
from ...schemas.files.probe_report import ENV_END_AFTER, ENV_PLAN, UNTIL_SAVED, ProbePlan
from ...schemas.files.snapshot import ENV_REENTRY
from ..text.errors import ReportError

_LOGGERS_OFF = {"WANDB_MODE": "disabled", "HF_HUB_DISABLE_TELEMETRY": "1", "MLFLOW_ENABLE_ASYNC_LOGGING": "false"}
"""A second start of a script is no run of the user's: what can be switched off by the environment is."""

PATIENCE_S = 600.0
"""Seconds beyond the time given after which a script that has not ended is ended: data may have to be read first."""


@dataclass(frozen=True, slots=True)
class Script:
    """A script as its user starts it."""

    target: str
    args: tuple[str, ...] = ()
    module: bool = False
    folder: Path | None = None
    """Where it was started; None for here."""

    @property
    def command(self) -> list[str]:
        """What python is given."""
        return [*(["-m"] if self.module else []), self.target, *self.args]

    @property
    def name(self) -> str:
        """The same without its arguments."""
        return " ".join(self.command[:2] if self.module else self.command[:1])


def record(
    script: Script,
    out: Path,
    *,
    steps: int = 0,
    seconds: float = 0.0,
    plan: ProbePlan | None = None,
    resume: bool = False,
    again: bool = False,
    snapshot: Path | None = None,
    until_saved: bool = False,
) -> subprocess.Popen[bytes]:
    """Start the script under `firstfault run`, everything measured. ``steps`` and ``seconds`` end it early; with a ``snapshot``
    it goes on from there. ``until_saved``: it makes more steps if it has saved no checkpoint by then."""
    environment = {**os.environ, **(_LOGGERS_OFF if again else {})}
    if steps and seconds:
        environment[ENV_END_AFTER] = f"{steps},{seconds}" + (f",{UNTIL_SAVED}" if until_saved else "")
    if plan is not None:
        environment[ENV_PLAN] = str(write_plan(plan))
    if snapshot is not None:
        environment[ENV_REENTRY] = str(snapshot.resolve())
    where = ["--resume", str(out.resolve())] if resume else ["--out", str(out.resolve()), "--budget", "off"]
    where += ["--snapshots", "off"]
    command = [sys.executable, "-P", "-m", "firstfault", "run", "--quiet", *where, *script.command]
    return _start(command, environment, script)


def probe(script: Script, plan: ProbePlan) -> subprocess.Popen[bytes]:
    """Start the script unrecorded, its loop driven by probes."""
    path = write_plan(plan)
    command = [sys.executable, "-P", "-m", "firstfault.recorder.probes", str(path), *script.command]
    return _start(command, {**os.environ, **_LOGGERS_OFF}, script)


def write_plan(plan: ProbePlan) -> Path:
    """The plan's file, in its folder."""
    folder = Path(plan.folder)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "plan.json"
    path.write_bytes(msgspec.json.encode(plan))
    return path


def finish(process: subprocess.Popen[bytes], seconds: float, patience: float = PATIENCE_S) -> int:
    """Wait for a script; end it after ``seconds`` and our ``patience``, in seconds too. Returns its exit status."""
    try:
        return process.wait(seconds + patience)
    except subprocess.TimeoutExpired:
        process.terminate()
    try:
        return process.wait(30)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait()


def recorded(run: Path) -> Path:
    """The run folder. Raises ReportError where nothing was recorded at all."""
    if not (run / RUN_JSON).exists():
        raise ReportError(f"{run}: the script could not be started under `firstfault run`; try that command by itself")
    return run


def _start(command: list[str], environment: dict[str, str], script: Script) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        command,
        env=environment,
        cwd=script.folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )

"""What probes tell: one result each, and the file in which a probed script leaves them. Words are made where they are read."""

from pathlib import Path
from typing import Any, Literal

import msgspec

from .json_text import json_file
from .safe_files import read_record

Outcome = Literal["passed", "doubtful", "failed", "untried"]

PROBES_JSON = "probes.json"

LEFT_OUT = "left_out"
"""File in a plan's folder with the indices of the samples that an intervention left out, one a line."""

ENV_PLAN = "FIRSTFAULT_PROBES"
"""Environment variable with the file of a ProbePlan: the process tries probes in its own training loop, or an intervention."""

ENV_END_AFTER = "FIRSTFAULT_END_AFTER"
"""Environment variable ``STEPS,SECONDS[,saved]``: a recorded process ends cleanly after so many steps, or so long after its
first. With ``saved`` it goes on until it has saved a checkpoint, as far as the seconds allow."""

UNTIL_SAVED = "saved"


class ProbeResult(msgspec.Struct, kw_only=True):
    """What one probe did and saw. ``code`` names the sentence that says it, ``values`` fill it in."""

    probe: str
    outcome: Outcome
    code: str
    values: dict[str, Any] = {}
    curve: list[tuple[float, float]] = []
    """Points that belong to it: learning rate and loss, step and loss, step and learning rate."""


class Picture(msgspec.Struct, kw_only=True):
    """A tensor of the first batch as a person looks at it: PNG as base64, or its first values as text."""

    name: str
    shape: list[int]
    dtype: str
    png: list[str] = []
    text: str = ""


class ProbeReport(msgspec.Struct, kw_only=True):
    """All that a probed script left."""

    results: list[ProbeResult] = []
    first_batch: list[Picture] = []
    iterations: int = 0
    seconds: float = 0.0
    ended: str = ""
    """How it ended: ``done``, ``script-ended``, ``time``, ``no-loop`` where no optimizer of torch was stepped, ``no-module``
    where no module was called with gradients, or ``raised: …`` with the exception of the script or of a probe."""


class ProbePlan(msgspec.Struct, kw_only=True):
    """What a process is to try. ``intervention`` is of `firstfault prove`, everything else of `firstfault preflight`."""

    folder: str
    seconds: float = 60.0
    probes: list[str] = []
    intervention: str = ""
    step: int = 0
    values: dict[str, Any] = {}


def write_report(folder: Path, report: ProbeReport) -> None:
    """Leave the report in a folder, whole or not at all."""
    temporary = folder / f".{PROBES_JSON}.tmp"
    temporary.write_bytes(json_file(report))
    temporary.replace(folder / PROBES_JSON)


def read_report(folder: Path) -> ProbeReport | None:
    """The report of a folder; None where there is none that can be read."""
    return read_record(folder / PROBES_JSON, folder, ProbeReport)


def read_plan(path: Path) -> ProbePlan:
    """The plan in a file. Raises OSError or msgspec.MsgspecError."""
    return msgspec.json.decode(path.read_bytes(), type=ProbePlan)

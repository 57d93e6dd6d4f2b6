"""RUN/proof.json: what `firstfault prove` tried, and what came of it."""

from pathlib import Path
from typing import Any, Literal

import msgspec

from .json_text import json_file
from .safe_files import read_record

PROOF_JSON = "proof.json"

SUDDEN = frozenset({"nonfinite", "crash", "jump", "gradient", "dip", "update", "activation"})
"""Signs that show within a few steps; the others are of the whole training."""

Proven = Literal["confirmed", "refuted"]


class Tried(msgspec.Struct, kw_only=True):
    """One re-run of the script with one intervention. ``sign`` is what was looked at, ``value`` how it looked then."""

    intervention: str
    step: int
    sign: str
    value: float | None
    gone: bool | None
    """Whether the sign of the fault was gone; null where the re-run itself went wrong."""
    why: str = ""
    after: int | None = None
    """The step after whose snapshot it went on; null where it began at the start."""
    values: dict[str, Any] = {}


class Proof(msgspec.Struct, kw_only=True):
    """All re-runs of one run. ``reproduced`` is null where nothing could be tried."""

    reproduced: bool | None
    sign: str
    step: int | None
    value: float | None
    tried: list[Tried] = []
    proven: dict[str, Proven] = {}
    """Name of a rule → what its cause turned out to be; names that could not be tried are missing."""
    smallest: list[int] | None = None
    """The fewest samples of the bad batch without which the fault is gone, by their place in it."""
    left_out: list[int] | None = None
    """Indices in the data set of the samples without which the script goes on."""
    note: str = ""


def read_proof(run: Path) -> Proof | None:
    """The proof of a run; None where there is none that can be read."""
    return read_record(run / PROOF_JSON, run, Proof)


def write_proof(run: Path, proof: Proof) -> None:
    """Leave it in the run folder, whole or not at all."""
    temporary = run / f".{PROOF_JSON}.tmp"
    temporary.write_bytes(json_file(proof))
    temporary.replace(run / PROOF_JSON)

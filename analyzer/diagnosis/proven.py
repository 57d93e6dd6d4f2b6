"""Causes that `firstfault prove` has tried: confirmed, or refuted and so behind the others."""

from pathlib import Path

from ...schemas.files.proof import read_proof
from ..verdict import Finding


def with_proof(run: Path, causes: list[Finding]) -> list[Finding]:
    """The causes with what came of them; a refuted one gives way to the next candidate."""
    proof = read_proof(run)
    if proof is None:
        return causes
    for cause in causes:
        cause.proof = proof.proven.get(cause.name)
    return sorted(causes, key=lambda cause: {"confirmed": 0, "refuted": 2}.get(str(cause.proof), 1))

"""What `firstfault prove` tried on the run's script: each intervention, and whether the sign of the fault was gone."""

from ...analyzer import Trace
from ...schemas.files.proof import SUDDEN, Proof, read_proof
from ..text.grid import Grid
from ..text.language import say
from ..text.wording import number, show_name
from .panel import Panel


def _sign(kind: str) -> str:
    return {
        "nonfinite": say("values that are not finite"),
        "crash": say("the script breaks off"),
        "jump": say("a jump of the loss"),
        "gradient": say("a jump of the gradients"),
        "dip": say("gradients that are gone"),
        "learning": say("a loss that falls no further"),
        "size": say("gradients of that size"),
        "away": say("a loss that moves away from zero"),
        "buffers": say("buffers that do not move"),
        "unchanged": say("weights that steps leave as they are"),
        "zeros": say("gradients that are zero"),
        "still": say("parameters that do not move"),
        "update": say("a jump of the updates"),
        "activation": say("a jump of an activation"),
        "undrawn": say("steps that draw no random number"),
        "skipped": say("steps that a GradScaler skips"),
        "fine": say("activations in full precision"),
        "sums": say("sums of ranks that are not the sum of their parts"),
    }.get(kind, kind)


def proof_panel(trace: Trace, _rank: int, _around: int | None, _suspect: str | None) -> Panel | None:
    """The table of re-runs; none where nobody has tried anything."""
    proof = read_proof(trace.path)
    if proof is None or not (proof.tried or proof.note):
        return None
    facts = [(show_name(name), say(how)) for name, how in sorted(proof.proven.items())]
    grid = Grid(["intervention", "from step", "sign", "then"], proof_rows(proof), [False, True, False, False])
    return Panel(
        "proof",
        say("What was tried"),
        " ".join(proof_lines(proof)),
        facts,
        [(say("Interventions in re-runs of the script"), grid)] if proof.tried else [],
    )


def proof_lines(proof: Proof) -> list[str]:
    """What came of it, in sentences."""
    lines: list[str] = []
    if proof.reproduced and proof.step is not None and proof.sign in SUDDEN:
        lines.append(say("The fault came back: {sign} at step {step}.", sign=_sign(proof.sign), step=proof.step))
    elif proof.reproduced:
        lines.append(say("The fault came back: {sign}.", sign=_sign(proof.sign)))
    entered = next((t.after for t in proof.tried if t.after is not None), None)
    if entered is not None:
        lines.append(say("Re-runs went on from the snapshot after step {step}.", step=entered))
    if proof.smallest:
        shown = ", ".join(map(str, proof.smallest))
        lines.append(say("It takes no more than these samples of the batch: {samples}.", samples=shown))
    if proof.left_out:
        shown = ", ".join(map(str, proof.left_out))
        lines.append(say("Without these samples of the data set the script goes on: {samples}.", samples=shown))
    if proof.note:
        lines.append(proof.note)
    return lines


def proof_rows(proof: Proof) -> list[list[str]]:
    """The re-runs as rows of words: intervention, from which step, the sign's value, whether it was gone."""
    rows: list[list[str]] = []
    for t in proof.tried:
        what = t.intervention if "samples" not in t.values else f"{t.intervention} {t.values['samples']}"
        gone = say("not known") if t.gone is None else say("gone") if t.gone else say("still there")
        seen = say(t.sign) + ("" if t.value is None else f" {number(t.value, 4)}")
        rows.append([what, str(t.step), seen, gone])
    return rows

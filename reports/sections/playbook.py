"""What to do about a cause, in which order, and how to know that it is gone: taken from the rule's own words and the run.

look      what in this run shows it (the replay, a capture)
rule out  what looks like it and is not (the rule's `not_this`)
change    the rule's fix, one try a line
confirm   record again and compare: the rule has to be silent
"""

import shlex
from dataclasses import dataclass
from pathlib import Path

from ...analyzer.rules.texts import header_of, text_of
from ...analyzer.verdict import Finding
from ...schemas import CaptureMeta
from ...schemas.files.call_recipe import PLAN_JSON
from ..text.language import say
from ..text.wording import number, sentence_case, show_name, show_text

BEYOND = 20
"""Steps past the first bad one to train again before a silent rule says something."""


@dataclass(frozen=True, slots=True)
class PlaybookStep:
    """One line: ``kind`` is look, rule out, change or confirm; ``command`` can be pasted into a shell, empty if none."""

    kind: str
    words: str
    command: str = ""


@dataclass(frozen=True, slots=True)
class RuleWords:
    """What the rule says about itself."""

    what: str
    why: str
    source: str


def playbook(
    finding: Finding, run: Path, captures: list[tuple[Path, CaptureMeta]], replayed: tuple[int, int] | None
) -> list[PlaybookStep]:
    """The checklist of one cause. ``replayed``: first and last step that the page replays."""
    header = header_of(finding.code, finding.name)
    steps: list[PlaybookStep] = []
    if replayed is not None and finding.step is not None and replayed[0] <= finding.step <= replayed[1]:
        where = f" {show_name(finding.module)}" if finding.module else say(" what changes first")
        steps.append(
            PlaybookStep(
                "look",
                say(
                    "Step through the replay up to step {step} and watch{where}.",
                    step=number(finding.step),
                    where=where,
                ),
            )
        )
    capture = next((folder for folder, meta in captures if meta.step == finding.step), None)
    if capture is not None:
        command = shlex.join(["firstfault", "replay", str(capture)])
        steps.append(PlaybookStep("look", say("Read the captured step operator by operator."), command))
        if (capture / PLAN_JSON).exists():
            command = shlex.join(["firstfault", "mre", str(capture)])
            steps.append(
                PlaybookStep("look", say("Make the captured call again, alone: a script for a debugger."), command)
            )
    if header is not None and header.doc.not_this:
        doc = text_of(finding.code, finding.name) or header.doc
        steps.append(PlaybookStep(say("rule out"), doc.not_this))
    steps += [PlaybookStep("change", words) for words in tries(show_text(finding.fix))]
    again = (
        say("Profile the changed script again: {code} has to be silent.", code=finding.code)
        if finding.step is None and finding.phase != "exit"
        else say("Run the changed script to the same place: no dump may name {code} again.", code=finding.code)
        if finding.step is None
        else say(
            "Record the changed script for {step} steps or more: {code} has to be silent.",
            step=number(finding.step + BEYOND),
            code=finding.code,
        )
    )
    steps.append(PlaybookStep("confirm", again, "firstfault run --out NEW SCRIPT ARGS"))
    compare = say("Both runs side by side: the finding is gone, and nothing new has come.")
    steps.append(PlaybookStep("confirm", compare, shlex.join(["firstfault", "compare", str(run), "NEW"])))
    return steps


def tries(fix: str) -> list[str]:
    """A fix as separate tries: its clauses between semicolons, those inside brackets and quotes left whole."""
    found: list[str] = []
    depth, start, quoted = 0, 0, False
    for i, c in enumerate(fix):
        if c == "`":
            quoted = not quoted
        depth += (c in "([{") - (c in ")]}")
        if c == ";" and depth <= 0 and not quoted:
            found.append(fix[start:i])
            start = i + 1
    found.append(fix[start:])
    return [sentence_case(words.strip().removesuffix(".")) + "." for words in found if words.strip()]


def rule_words(finding: Finding) -> RuleWords | None:
    """What the rule of a finding looks for, and why; None for a rule that is not ours."""
    header = header_of(finding.code, finding.name)
    if header is None:
        return None
    doc = text_of(finding.code, finding.name) or header.doc
    return RuleWords(doc.what, doc.why, doc.source)

"""The option by which a script resumes, read in its source: a switch of argparse such as ``--resume``."""

import ast
import re
from pathlib import Path

from ..text.language import say
from .preflight_facts import Fact
from .rerun_script import Script

_SWITCH = re.compile(r"^--?(auto[-_]?)?(resume|continue|restart)([-_]?(train(ing)?|run|from[-_]?(last|checkpoint)))?$")
_LARGEST = 300_000
"""Letters of a file that is parsed: half a second for each million."""


def resume_option(script: Script) -> tuple[str, ...] | None:
    """The arguments that make a script resume; None where it has no such switch, or was given one already."""
    source = _source(script)
    try:
        tree = ast.parse(source) if len(source) <= _LARGEST else None
    except (SyntaxError, ValueError, RecursionError):
        return None
    found = [] if tree is None else [name for node in ast.walk(tree) if (name := _switch(node)) is not None]
    if len(found) != 1 or any(_SWITCH.match(argument.partition("=")[0]) for argument in script.args):
        return None
    return (found[0],)


def reads_checkpoints(script: Script) -> bool:
    """Whether a script seems to go on from what it saves: its file does both."""
    source = _source(script)
    return "torch.save(" in source and "torch.load(" in source and ".load_state_dict(" in source


def _source(script: Script) -> str:
    """The text of a script; empty where it cannot be read."""
    if script.module:
        return ""
    try:
        return ((script.folder or Path()) / script.target).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return ""


def _switch(node: ast.AST) -> str | None:
    match node:
        case ast.Call(func=ast.Attribute(attr="add_argument"), args=args, keywords=keywords):
            on = any(
                k.arg == "action" and isinstance(k.value, ast.Constant) and k.value.value == "store_true"
                for k in keywords
            )
            names = [a.value for a in args if isinstance(a, ast.Constant) and isinstance(a.value, str)]
            return next((name for name in reversed(names) if on and _SWITCH.match(name)), None)
        case _:
            return None


def as_guessed(facts: list[Fact], arguments: tuple[str, ...]) -> list[Fact]:
    """Facts of a start with arguments that nobody gave: where it made no step or loaded nothing, they were the wrong ones."""
    useless = (say("The second start made no step from the checkpoint."), say("The second start loaded nothing."))
    words = say("not tried: give --resume-with the arguments that load the checkpoint")
    option = " ".join(arguments)
    return [
        (area, name, "untried", words)
        if outcome == "failed" and text.startswith(useless)
        else (area, name, outcome, say("With {option}: ", option=option) + text)
        for area, name, outcome, text in facts
    ]

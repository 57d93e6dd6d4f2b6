"""`firstfault demo`: a training with a real fault, recorded, diagnosed and drawn."""

from pathlib import Path
from typing import Annotated

import typer

from .asked_language import speak_as_asked
from .common import DebugOption, LangOption, add, command_errors, console, json_option, out_option, print_json

DEFAULT_DEMO = "fully-masked-attention-row"


def register(app: typer.Typer) -> None:
    """Add this command to the application."""
    add(app, "demo", demo_command)


def demo_command(
    fault: Annotated[str, typer.Argument(help="Fault to switch on; `none` for a healthy run.")] = DEFAULT_DEMO,
    out: Annotated[Path | None, out_option("DIR", "Folder of the run; must not exist or be empty.")] = None,
    as_json: Annotated[bool, json_option("Print run, report and whether the diagnosis agrees as JSON.")] = False,
    lang: LangOption = None,
    debug: DebugOption = False,
) -> None:
    """Train a small GPT with a real fault, record it, diagnose it and write the report.

    Exit status: 0 when the diagnosis names the fault, its step and its module; 1 when it does not.
    """
    from .demo_training import run_demo  # noqa: PLC0415 # altair: not for --help

    err = console(stderr=True)
    with command_errors(err, debug=debug):
        speak_as_asked(lang, None)
        shown = run_demo(console(stderr=as_json), fault, out)
    if as_json:
        print_json({"run": str(shown.run), "report": str(shown.page), "verdict": shown.verdict, "wrong": shown.wrong})
    raise typer.Exit(1 if shown.wrong else 0)

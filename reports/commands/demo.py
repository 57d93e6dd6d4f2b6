"""`firstfault demo`: a training with a real fault, recorded, diagnosed and drawn."""

from pathlib import Path
from typing import Annotated

import typer

from .asked_language import speak_as_asked
from .common import DebugOption, LangOption, add, command_errors, console, out_option

DEFAULT_DEMO = "fully-masked-attention-row"


def register(app: typer.Typer) -> None:
    """Add this command to the application."""
    add(app, "demo", demo_command)


def demo_command(
    fault: Annotated[str, typer.Argument(help="Fault to switch on; `none` for a healthy run.")] = DEFAULT_DEMO,
    out: Annotated[Path | None, out_option("DIR", "Folder of the run; must not exist or be empty.")] = None,
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
        agrees = run_demo(console(), fault, out)
    raise typer.Exit(0 if agrees else 1)

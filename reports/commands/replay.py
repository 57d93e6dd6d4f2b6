"""`firstfault replay`: how a captured step lost its first value, operator by operator."""

from pathlib import Path
from typing import Annotated

import typer

from ...analyzer import Trace
from ..page.terminal import print_capture
from ..sections.capture_view import capture_json, find_capture, operators_of, view_of
from .asked_language import speak_as_asked
from .common import DebugOption, LangOption, add, command_errors, console, json_option, print_json


def register(app: typer.Typer) -> None:
    """Add this command to the application."""
    add(app, "replay", replay_command)


def replay_command(
    capture: Annotated[
        Path,
        typer.Argument(metavar="CAPTURE", help="Folder below captures/ of a run; or the run, for its first capture."),
    ],
    as_json: Annotated[bool, json_option("Print the operators as JSON.")] = False,
    lang: LangOption = None,
    debug: DebugOption = False,
) -> None:
    """Show operator by operator how a captured step lost its first value, and in which line of the script."""
    out, err = console(), console(stderr=True)
    with command_errors(err, debug=debug):
        run, folder, meta = find_capture(capture)
        speak_as_asked(lang, run)
        with Trace(run) as trace:
            operators = operators_of(trace, meta)
        if as_json:
            print_json(capture_json(meta, folder, operators))
        else:
            print_capture(out, view_of(meta, folder, operators))

"""`firstfault diagnose`: the verdict about one run, in words or as JSON."""

from typing import Annotated

import msgspec
import typer

from ...analyzer import Trace, diagnose, rules_for
from ..page.terminal import print_verdict
from .asked_language import speak_as_asked
from .common import (
    EXIT_CODES,
    DebugOption,
    LangOption,
    RulesOption,
    RunArgument,
    add,
    chosen_run,
    command_errors,
    console,
    json_option,
    print_json,
)
from .progress import sign_of_life


def register(app: typer.Typer) -> None:
    """Add this command to the application."""
    add(app, "diagnose", diagnose_command)


def diagnose_command(
    run: RunArgument = None,
    as_json: Annotated[bool, json_option("Print the verdict as JSON.")] = False,
    rules: RulesOption = None,
    lang: LangOption = None,
    debug: DebugOption = False,
) -> None:
    """Name the first bad step of a run, its module, cause and fix.

    Exit status: 0 healthy, 1 anomalous, 2 wrong usage or unreadable, 3 inconclusive.
    """
    out, err = console(), console(stderr=True)
    with command_errors(err, debug=debug):
        folder = chosen_run(err, run)
        speak_as_asked(lang, folder)
        with sign_of_life(err, "Reading and judging the run …"), Trace(folder) as trace:
            verdict = diagnose(trace, rules_for(folder, rules))
            if as_json:
                print_json(msgspec.to_builtins(verdict))
            else:
                print_verdict(out, trace, verdict)
    raise typer.Exit(EXIT_CODES[verdict.verdict])

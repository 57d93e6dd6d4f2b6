"""`firstfault report`: one self-contained page about a run."""

from pathlib import Path
from typing import Annotated

import typer

from ...analyzer import Trace, diagnose, rules_for
from ..text.language import say
from ..text.wording import show_name
from .asked_language import speak_as_asked
from .common import (
    DebugOption,
    ForceOption,
    LangOption,
    RulesOption,
    RunArgument,
    add,
    chosen_run,
    command_errors,
    console,
    json_option,
    out_option,
    print_json,
)
from .progress import sign_of_life


def register(app: typer.Typer) -> None:
    """Add this command to the application."""
    add(app, "report", report_command)


def report_command(
    run: RunArgument = None,
    out: Annotated[Path | None, out_option("FILE", "The page; by default RUN-report.html, here.")] = None,
    force: ForceOption = False,
    as_json: Annotated[bool, json_option("Print the page's path, the verdict and what was left out as JSON.")] = False,
    share: Annotated[
        bool,
        typer.Option(
            "--share",
            help="Leave out host, user, folders above the project, arguments and output, and list what was left out.",
        ),
    ] = False,
    rules: RulesOption = None,
    lang: LangOption = None,
    debug: DebugOption = False,
) -> None:
    """Write one self-contained HTML page about a run; it opens from disk with no network."""
    from ..page.render import check_target, write_page, write_shared_page  # noqa: PLC0415 # altair takes a second that `diagnose` need not wait for

    err = console(stderr=True)
    with command_errors(err, debug=debug):
        folder = chosen_run(err, run)
        speak_as_asked(lang, folder)
        target = out or Path(f"{folder.resolve().name}-report.html")
        check_target(target, force=force)
        left_out: list[str] = []
        with sign_of_life(err, "Reading the run and drawing the page …"), Trace(folder) as trace:
            verdict = diagnose(trace, rules_for(folder, rules))
            if share:
                left_out = write_shared_page(trace, verdict, target, force=force)
            else:
                write_page(trace, verdict, target, force=force)
    if as_json:
        print_json({"report": str(target), "verdict": verdict.verdict, "left_out": left_out})
        return
    if left_out:
        err.print(say("left out: {what}", what=say(", ").join(left_out)), markup=False, soft_wrap=True, style="dim")
    console().print(show_name(str(target)), markup=False, highlight=False, soft_wrap=True)

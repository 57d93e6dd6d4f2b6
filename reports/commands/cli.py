"""The commands of this room: diagnose, report and demo. The only place here that prints and picks exit codes."""

import math
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer
from rich.console import Console

from ...analyzer import AnalyzerError, Trace, Verdict, diagnose, judging
from ...schemas import SchemaError
from ..page.terminal import print_capture, print_verdict
from ..sections.capture_view import capture_json, find_capture, operators_of, view_of
from ..text.errors import ReportError
from ..text.language import say
from ..text.wording import show_name, show_text
from .asked_language import LangOption, speak_as_asked
from .find_run import find_run
from .progress import sign_of_life

EXIT_CODES = {"healthy": 0, "anomalous": 1, "inconclusive": 3}
"""Exit status of `firstfault diagnose` by verdict."""

UNREADABLE = 2
"""Exit status for wrong usage, and for a run that cannot be read."""

DEFAULT_DEMO = "fully-masked-attention-row"

RunArgument = Annotated[
    Path | None,
    typer.Argument(metavar="RUN", show_default=False, help="Folder of a run; by default the newest one here."),
]
RulesOption = Annotated[
    Path | None, typer.Option("--rules", metavar="DIR", help="Also judge by the rules in this folder.")
]
DebugOption = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]


def register(app: typer.Typer) -> None:
    """Add this room's commands to the application."""
    app.command("diagnose")(diagnose_command)
    app.command("report")(report_command)
    app.command("demo")(demo_command)
    app.command("replay")(replay_command)
    app.command("mre")(mre_command)


def diagnose_command(
    run: RunArgument = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the verdict as JSON.")] = False,
    rules: RulesOption = None,
    lang: LangOption = None,
    debug: DebugOption = False,
) -> None:
    """Name the first bad step of a run, its module, cause and fix.

    Exit status: 0 healthy, 1 anomalous, 2 wrong usage or unreadable, 3 inconclusive.
    """
    out, err = console(), console(stderr=True)
    with command_errors(err, debug=debug):
        folder = _chosen(err, run)
        speak_as_asked(lang, folder)
        with sign_of_life(err, "Reading and judging the run …"), Trace(folder) as trace:
            verdict = diagnose(trace, judging(folder, rules))
            if as_json:
                sys.stdout.write(verdict_json(verdict) + "\n")
            else:
                print_verdict(out, trace, verdict)
    raise typer.Exit(EXIT_CODES[verdict.verdict])


def report_command(
    run: RunArgument = None,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="FILE", help="The page; by default RUN-report.html, here.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite a file that firstfault did not write.")] = False,
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
        folder = _chosen(err, run)
        speak_as_asked(lang, folder)
        target = output or Path(f"{folder.resolve().name}-report.html")
        check_target(target, force=force)
        left_out: list[str] = []
        with sign_of_life(err, "Reading the run and drawing the page …"), Trace(folder) as trace:
            verdict = diagnose(trace, judging(folder, rules))
            if share:
                left_out = write_shared_page(trace, verdict, target, force=force)
            else:
                write_page(trace, verdict, target, force=force)
    if left_out:
        err.print(say("left out: {what}", what=say(", ").join(left_out)), markup=False, soft_wrap=True, style="dim")
    console().print(show_name(str(target)), markup=False, highlight=False, soft_wrap=True)


def replay_command(
    capture: Annotated[
        Path,
        typer.Argument(metavar="CAPTURE", help="Folder below captures/ of a run; or the run, for its first capture."),
    ],
    as_json: Annotated[bool, typer.Option("--json", help="Print the operators as JSON.")] = False,
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
            shown = named(capture_json(meta, folder, operators))
            sys.stdout.write(msgspec.json.format(msgspec.json.encode(shown), indent=2).decode() + "\n")
        else:
            print_capture(out, view_of(meta, folder, operators))


def mre_command(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a run, or of one of its captures.")],
    capture: Annotated[
        str | None, typer.Option("--capture", metavar="NAME", help="Folder below captures/; by default the first one.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("-o", "--out", metavar="FILE", help="The script; by default RUN-mre.py, here.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite a file.")] = False,
    debug: DebugOption = False,
) -> None:
    """Write a script that makes a captured call once more, for a bug report: the module, its weights, its inputs.

    It needs torch and the capture, not firstfault, and ends as the run did.
    """
    from ..mre.script import chosen_capture, reproduction, write_script  # noqa: PLC0415 # jinja2: only where it is used

    err = console(stderr=True)
    with command_errors(err, debug=debug):
        where, folder, meta = chosen_capture(run, capture)
        target = output or Path(f"{where.resolve().name}-mre.py")
        made = reproduction(where, folder, meta, target.name)
        write_script(target, made, force=force)
    for note in made.notes:
        err.print(show_name(f"note: {note}"), markup=False, soft_wrap=True)
    console().print(show_name(str(target)), markup=False, highlight=False, soft_wrap=True)


def demo_command(
    fault: Annotated[str, typer.Argument(help="Fault to switch on; `none` for a healthy run.")] = DEFAULT_DEMO,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="Folder of the run; must not exist or be empty.")
    ] = None,
    debug: DebugOption = False,
) -> None:
    """Train a small GPT with a real fault, record it, diagnose it and write the report.

    Exit status: 0 when the diagnosis names the fault, its step and its module; 1 when it does not.
    """
    from .demo_training import run_demo  # noqa: PLC0415 # as above

    err = console(stderr=True)
    with command_errors(err, debug=debug):
        agrees = run_demo(console(), fault, out)
    raise typer.Exit(0 if agrees else 1)


def verdict_json(verdict: Verdict) -> str:
    """The verdict by its contract. JSON has no NaN: such values stand as the strings NaN, Infinity and -Infinity."""
    return msgspec.json.format(msgspec.json.encode(named(msgspec.to_builtins(verdict))), indent=2).decode()


def named(value: Any) -> Any:
    """A value that JSON can hold: numbers that are not finite by name."""
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, dict):
        return {key: named(v) for key, v in value.items()}
    if isinstance(value, list | tuple):
        return [named(v) for v in value]
    return value


def _chosen(err: Console, run: Path | None) -> Path:
    folder, note = find_run(run)
    if note:
        err.print(show_name(note), markup=False, highlight=False, soft_wrap=True, style="dim")
    return folder


def console(*, stderr: bool = False) -> Console:
    """A console that colours nothing by itself."""
    return Console(stderr=stderr, highlight=False)


@contextmanager
def command_errors(err: Console, *, debug: bool) -> Generator[None]:
    """Show a known error as its sentence and exit with status 2; the traceback only on demand."""
    try:
        yield
    except (ReportError, AnalyzerError, SchemaError) as e:
        if debug:
            raise
        err.print(show_text(f"firstfault: {e}"), markup=False, highlight=False, soft_wrap=True, style="red")
        raise typer.Exit(UNREADABLE) from None

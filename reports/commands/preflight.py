"""The command that tries a script before the night: preflight."""

import shlex
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from ..text.errors import ReportError
from ..text.language import say
from ..text.wording import show_name, show_text
from .asked_language import speak_as_asked
from .common import DebugOption, LangOption, command_errors, console, json_option, out_option, print_json
from .find_run import DEFAULT_FOLDER


def register(app: typer.Typer) -> None:
    """Add this command to the application."""
    app.command("preflight", context_settings={"allow_interspersed_args": False})(preflight_command)


def preflight_command(
    target: Annotated[
        str,
        typer.Argument(
            metavar="SCRIPT|MODULE", help="The script, or with -m the module, as you would give it to python."
        ),
    ],
    args: Annotated[list[str] | None, typer.Argument(metavar="ARGS", help="Arguments of the script.")] = None,
    module: Annotated[bool, typer.Option("-m", help="Run a module instead of a file, as python -m does.")] = False,
    steps: Annotated[int, typer.Option("--steps", metavar="N", min=3, help="Training steps to record.")] = 30,
    seconds: Annotated[
        float,
        typer.Option(
            "--seconds", metavar="S", min=5, help="Seconds of training to record, and seconds for the probes."
        ),
    ] = 60,
    total_steps: Annotated[
        int | None,
        typer.Option("--total-steps", metavar="N", min=1, help="Steps of the real run: for its schedule and its time."),
    ] = None,
    resume_with: Annotated[
        str | None,
        typer.Option(
            "--resume-with",
            metavar="ARGS",
            help="Arguments with which the script loads its checkpoint: tries a second start. Without them one switch such as"
            " --resume is tried, where the script has it.",
        ),
    ] = None,
    tokenizer: Annotated[
        Path | None,
        typer.Option("--tokenizer", metavar="DIR", help="Compare the script's tokenizer with the one saved here."),
    ] = None,
    out: Annotated[Path | None, out_option("DIR", "Folder for the runs and the page.")] = None,
    as_json: Annotated[bool, json_option("Print the answer as JSON.")] = False,
    lang: LangOption = None,
    debug: DebugOption = False,
) -> None:
    """Try a script before a long run: its first steps recorded and judged, then probed. Its code runs several times.

    Probes run in processes of their own, on the script's own loop; they write no checkpoint of torch.save. The second start
    rehearses the end of an epoch, and the last one the rest of the script; they do not change files that were there before.
    Exit status: 0 go, 1 stop, 2 wrong usage, 3 doubtful.
    """
    from ..reruns.preflight import AREAS, EXIT_CODES, preflight  # noqa: PLC0415 # charts: not for --help
    from ..reruns.preflight_page import write_preflight  # noqa: PLC0415 # as above
    from ..reruns.rerun_script import Script  # noqa: PLC0415 # as above

    console_, err = console(), console(stderr=True)
    with command_errors(err, debug=debug):
        speak_as_asked(lang, None)
        if target == "-m" and args and not module:  # behind `--`, as `firstfault run` takes it too
            target, args, module = args[0], args[1:], True
        if not module and not Path(target).is_file():
            raise ReportError(f"{target}: no such script; options of firstfault come before the script")
        stamp = datetime.now(tz=UTC).strftime("%Y%m%dT%H%M%SZ")
        folder = out or DEFAULT_FOLDER / f"{stamp}-preflight-{Path(target).stem}"
        if folder.exists() and any(folder.iterdir()):
            raise ReportError(f"{folder}: is not empty; choose a new folder with --out")
        folder.mkdir(parents=True, exist_ok=True)

        def told(words: str) -> None:
            if err.is_terminal:
                err.print(words, markup=False, style="dim")

        found = preflight(
            Script(target, tuple(args or ()), module),
            folder,
            steps=steps,
            seconds=seconds,
            total_steps=total_steps,
            resume_args=tuple(shlex.split(resume_with)) if resume_with is not None else None,
            tokenizer=tokenizer,
            told=told,
        )
        page = write_preflight(found, folder / "preflight.html")
        if as_json:
            checks = [
                {"area": c.area, "name": c.name, "outcome": c.outcome, "words": c.words, "values": c.values}
                for c in found.checks
            ]
            said = {"answer": found.answer, "script": found.script, "run": str(found.run), "steps": found.steps}
            said |= {"seconds": round(found.seconds, 1), "checks": checks, "page": str(page)}
            print_json(said)
        else:
            colour = {"go": "green", "stop": "red", "doubtful": "yellow"}[found.answer]
            console_.print(Text(f" {say(found.answer).upper()} ", style=f"bold reverse {colour}"))
            grid = Table.grid(padding=(0, 1))
            grid.add_column(no_wrap=True)
            grid.add_column(style="dim", no_wrap=True)
            grid.add_column(overflow="fold")
            for area in AREAS:
                worst = found.of(area)[0]
                grid.add_row(MARKS[worst.outcome], say(area), Text(show_text(worst.words)))
            console_.print(grid)
            console_.print(show_name(str(page)), markup=False, highlight=False, soft_wrap=True)
    raise typer.Exit(EXIT_CODES[found.answer])


MARKS = {"passed": "[green]✓[/]", "doubtful": "[yellow]?[/]", "failed": "[red]✗[/]", "untried": "[dim]–[/]"}
"""A sign for each outcome."""

"""`firstfault import`: files that others wrote become a run folder."""

from pathlib import Path
from typing import Annotated

import typer

from ... import __version__
from ...analyzer.word_patterns import in_words
from ..text.wording import show_name
from .asked_language import speak_as_asked
from .common import DebugOption, LangOption, add, command_errors, console, json_option, out_option, print_json


def register(app: typer.Typer) -> None:
    """Add this command to the application."""
    add(app, "import", import_command)


def import_command(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="Files to import, all of one run.")],
    out: Annotated[Path, out_option("RUN", "Folder of the run; must not exist or be empty.")],
    loss: Annotated[
        list[str] | None,
        typer.Option("--loss", metavar="NAME", help="Column that is a loss of the training; repeatable."),
    ] = None,
    step: Annotated[str | None, typer.Option("--step", metavar="NAME", help="Column that counts the steps.")] = None,
    lr: Annotated[
        list[str] | None, typer.Option("--lr", metavar="NAME", help="Column that is a learning rate; repeatable.")
    ] = None,
    metric: Annotated[
        list[str] | None,
        typer.Option("--metric", metavar="NAME", help="Column that an evaluation gave, such as its loss; repeatable."),
    ] = None,
    as_json: Annotated[bool, json_option("Print the run and what each file held as JSON.")] = False,
    lang: LangOption = None,
    debug: DebugOption = False,
) -> None:
    """Make a run folder of files that firstfault did not write. Read profiler traces, memory snapshots, Flight Recorder dumps,
    TensorBoard event files and trainer_state.json. Read curves as CSV or JSON lines.
    """
    from ...analyzer.importers import Choices, import_files  # noqa: PLC0415 # DuckDB need not be loaded for --help

    err = console(stderr=True)

    held: list[dict[str, str]] = []

    def done(path: Path, words: str) -> None:
        held.append({"file": str(path), "held": words})
        if not as_json:
            err.print(
                show_name(f"{path.name}: {in_words('found_in_file', words)}"),
                markup=False,
                highlight=False,
                soft_wrap=True,
            )

    with command_errors(err, debug=debug):
        speak_as_asked(lang, None)
        choices = Choices(tuple(loss or ()), step, tuple(lr or ()), tuple(metric or ()))
        import_files(files, out, __version__, choices=choices, done=done)
    if as_json:
        print_json({"run": str(out), "files": held})
        return
    console().print(show_name(str(out)), markup=False, highlight=False, soft_wrap=True)

"""What all commands share: options in one style, consoles, and how an error is said.

`-o/--out` names what is written, `--force` overwrites a file, `--json` is for machines, `--lang` chooses the language, and
`--debug` shows the traceback of an error. `--output`, as three commands called it once, is still understood for `--out`. No run
is ever made over another, whatever the options.
"""

import math
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer
from rich.console import Console

from ...analyzer import AnalyzerError
from ...schemas import SchemaError
from ..text.errors import ReportError
from ..text.wording import show_name, show_text
from .find_run import find_run

EXIT_CODES = {"healthy": 0, "anomalous": 1, "inconclusive": 3}
"""Exit status of `firstfault diagnose` and `firstfault watch` by verdict."""

UNREADABLE = 2
"""Exit status for wrong usage, and for a run that cannot be read."""

RunArgument = Annotated[
    Path | None,
    typer.Argument(metavar="RUN", show_default=False, help="Folder of a run; by default the newest one here."),
]
RulesOption = Annotated[
    Path | None, typer.Option("--rules", metavar="DIR", help="Also judge by the rules in this folder.")
]
ForceOption = Annotated[bool, typer.Option("--force", help="Overwrite a file that firstfault did not write.")]
LangOption = Annotated[
    str | None,
    typer.Option("--lang", metavar="en|zh", show_default=False, help="Language of all texts; also FIRSTFAULT_LANG."),
]
DebugOption = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]


def json_option(what: str) -> Any:
    """The option `--json`; its help says what is printed."""
    return typer.Option("--json", help=what)


def out_option(metavar: str, what: str) -> Any:
    """The option `-o/--out`."""
    return typer.Option("-o", "--out", metavar=metavar, help=what)


def add(app: typer.Typer, name: str, command: Callable[..., None]) -> None:
    """Add a command under its name."""
    app.command(name, context_settings={"token_normalize_func": _plain_option})(command)


def _plain_option(name: str) -> str:
    return "out" if name == "output" else name


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


def print_json(value: Any, *, indent: int = 2) -> None:
    """Print a value as JSON, numbers that are not finite by name."""
    sys.stdout.write(msgspec.json.format(msgspec.json.encode(named(value)), indent=indent).decode() + "\n")


def print_json_line(value: Any) -> None:
    """Print a value as one line of JSON, at once."""
    sys.stdout.write(msgspec.json.encode(named(value)).decode() + "\n")
    sys.stdout.flush()


def named(value: Any) -> Any:
    """A value that JSON can hold: numbers that are not finite by name."""
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, dict):
        return {key: named(v) for key, v in value.items()}
    if isinstance(value, list | tuple):
        return [named(v) for v in value]
    return value


def chosen_run(err: Console, run: Path | None) -> Path:
    """The run that a command means; a choice that is not the user's own is said."""
    folder, note = find_run(run)
    if note:
        err.print(show_name(note), markup=False, highlight=False, soft_wrap=True, style="dim")
    return folder

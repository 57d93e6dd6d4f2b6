"""`firstfault sql`: queries over the tables and views of a run."""

import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import msgspec
import polars as pl
import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table as RichTable

from ...analyzer.diagnosis.diagnose import plain
from ...analyzer.errors import AnalyzerError, QueryError
from ...analyzer.reading.trace import HARMLESS, Trace, statements_of
from ...analyzer.reading.views import SHARED
from ...analyzer.visible import visible, visible_lines
from ...analyzer.word_patterns import in_words
from ..text.language import say
from .asked_language import speak_as_asked
from .common import UNREADABLE, DebugOption, LangOption, add, command_errors, console, json_option

MAX_ROWS = 200
"""Rows that a terminal table shows; --csv and --json give all."""


def register(app: typer.Typer) -> None:
    """Add this command to the application."""
    add(app, "sql", sql_command)


def sql_command(
    run: Annotated[Path, typer.Argument(help="Folder that `firstfault run` wrote.")],
    query: Annotated[str | None, typer.Argument(help="One SQL statement; a prompt without it.")] = None,
    csv: Annotated[bool, typer.Option("--csv", help="Print CSV.")] = False,
    as_json: Annotated[bool, json_option("Print one JSON object per row.")] = False,
    unsafe: Annotated[
        bool, typer.Option("--unsafe", help="Let SQL read and write files, and reach the network.")
    ] = False,
    lang: LangOption = None,
    debug: DebugOption = False,
) -> None:
    """Query the recorded tables and shared views of a run with DuckDB."""
    if csv and as_json:
        _complain("give --csv or --json, not both")
        raise typer.Exit(UNREADABLE)
    with command_errors(console(stderr=True), debug=debug), _opened(run, lang, unsafe=unsafe) as trace:
        for problem in trace.problems:
            _complain(say("left out {path}: {what}", path=problem.path, what=in_words("problem", problem.what)))
        show = _show_csv if csv else _show_json if as_json else _show_table
        if query is None:
            _prompt(trace, show, unsafe=unsafe)
            return
        try:
            show(asked(trace, query, unsafe=unsafe))
        except QueryError as e:
            if debug:
                raise
            raise AnalyzerError(_first_lines(e)) from e


@contextmanager
def _opened(run: Path, lang: str | None, *, unsafe: bool) -> Generator[Trace]:
    speak_as_asked(lang, run)
    with Trace(run, described=True, unsafe=unsafe) as trace:
        yield trace


def asked(trace: Trace, query: str, *, unsafe: bool) -> pl.DataFrame:
    """The answer. Raises QueryError for a statement that would touch more than what is in memory."""
    if not unsafe:
        refused = {s.type for s in statements_of(query)} - HARMLESS
        if refused:
            names = ", ".join(sorted(kind.name for kind in refused))
            raise QueryError(f"{names} may write files or load code; use --unsafe if you mean it")
    return trace.sql(query)


def _prompt(trace: Trace, show: Callable[[pl.DataFrame], None], *, unsafe: bool) -> None:
    interactive = sys.stdin.isatty()
    if interactive:
        names = f"tables: {', '.join(trace.tables)}\nshared views among them: {', '.join(SHARED)}"
        print(f"{names}\nend a statement with ; leave with Ctrl-D")  # noqa: T201 # command line
    pending = ""
    while True:
        try:
            line = input("firstfault> " if interactive and not pending else "        ... " if interactive else "")
        except (EOFError, KeyboardInterrupt):
            break
        pending += line + "\n"
        if pending.rstrip().endswith(";"):
            _answer(trace, pending, show, unsafe=unsafe)
            pending = ""
    if pending.strip():
        _answer(trace, pending, show, unsafe=unsafe)


def _answer(trace: Trace, query: str, show: Callable[[pl.DataFrame], None], *, unsafe: bool) -> None:
    try:
        show(asked(trace, query, unsafe=unsafe))
    except QueryError as e:
        _complain(_first_lines(e))


def _show_csv(frame: pl.DataFrame) -> None:
    nested = [c for c, t in frame.schema.items() if isinstance(t, pl.List | pl.Struct | pl.Array)]
    flat = frame.with_columns(pl.col(c).map_elements(lambda v: str(list(v)), return_dtype=pl.String) for c in nested)
    _write(flat.write_csv())


def _show_json(frame: pl.DataFrame) -> None:
    for row in frame.iter_rows(named=True):
        _write(msgspec.json.encode({k: plain(v) for k, v in row.items()}).decode() + "\n")


def _write(text: str) -> None:
    """For a program as it is, for a terminal so that no name in it can command it."""
    sys.stdout.write(visible_lines(text) if sys.stdout.isatty() else text)


def _show_table(frame: pl.DataFrame) -> None:
    table = RichTable(*(escape(visible(c)) for c in frame.columns), box=None, pad_edge=False)
    for row in frame.head(MAX_ROWS).iter_rows():
        table.add_row(*(escape(_cell(v)) for v in row))
    console = Console()
    console.print(table)
    if frame.height > MAX_ROWS:
        console.print(f"… {frame.height - MAX_ROWS} more rows; --csv prints all")


def _cell(value: object) -> str:
    if value is None:
        return ""
    return format(value, ".6g") if isinstance(value, float) else visible(str(value))


def _first_lines(e: QueryError) -> str:
    """What DuckDB says first; the rest draws the place in the statement."""
    return "\n".join(str(e).splitlines()[:2])


def _complain(message: str) -> None:
    print("firstfault: " + "\n".join(map(visible, message.splitlines())), file=sys.stderr)  # noqa: T201 # command line

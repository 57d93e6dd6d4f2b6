"""`firstfault import`: files that others wrote become a run folder. `firstfault export`: a run becomes a trace for Perfetto."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from ... import __version__
from ...analyzer.errors import AnalyzerError


def register(app: typer.Typer) -> None:
    """Add the sub-commands of this file."""
    app.command("import")(import_command)
    app.command("export")(export_command)


def import_command(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="Files to import, all of one run.")],
    out: Annotated[Path, typer.Option("--out", metavar="RUN", help="Folder of the run; must not exist or be empty.")],
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
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
) -> None:
    """Make a run folder of files that others wrote: profiler traces, memory snapshots, Flight Recorder dumps, TensorBoard event
    files, trainer_state.json, curves as CSV or JSON lines.
    """
    from ...analyzer.importers import Choices, import_files  # noqa: PLC0415 # DuckDB need not be loaded for --help

    def done(path: Path, words: str) -> None:
        print(f"{_shown(path.name)}: {words}", file=sys.stderr)  # noqa: T201 # command line

    try:
        choices = Choices(tuple(loss or ()), step, tuple(lr or ()), tuple(metric or ()))
        import_files(files, out, __version__, choices=choices, done=done)
    except AnalyzerError as e:
        if debug:
            raise
        print(f"firstfault: {_shown(str(e))}", file=sys.stderr)  # noqa: T201 # command line
        raise typer.Exit(2) from None
    print(out)  # noqa: T201 # command line


def export_command(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of the run.")],
    out: Annotated[
        Path, typer.Option("--out", metavar="FILE", help="Such as trace.json or trace.json.gz; must not exist.")
    ],
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
) -> None:
    """Write the timeline of a run as a trace for Perfetto (ui.perfetto.dev) or chrome://tracing: steps, phases, curves, memory,
    events, findings, and what a profiler recorded.
    """
    from ...analyzer.export.perfetto import export_trace  # noqa: PLC0415 # DuckDB need not be loaded for --help
    from ...analyzer.reading.trace import Trace  # noqa: PLC0415 # as above

    try:
        with Trace(run) as trace:
            count = export_trace(trace, out)
    except AnalyzerError as e:
        if debug:
            raise
        print(f"firstfault: {_shown(str(e))}", file=sys.stderr)  # noqa: T201 # command line
        raise typer.Exit(2) from None
    print(f"{count} events", file=sys.stderr)  # noqa: T201 # command line
    print(out)  # noqa: T201 # command line


def _shown(text: str) -> str:
    """Text that does nothing to a terminal."""
    return "".join(c if c.isprintable() else "?" for c in text)

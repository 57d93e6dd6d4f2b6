"""`firstfault export`: a run as a trace for Perfetto."""

from pathlib import Path
from typing import Annotated

import typer

from ..text.wording import show_name
from .common import DebugOption, add, command_errors, console, out_option


def register(app: typer.Typer) -> None:
    """Add this command to the application."""
    add(app, "export", export_command)


def export_command(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of the run.")],
    out: Annotated[Path, out_option("FILE", "Such as trace.json or trace.json.gz.")],
    force: Annotated[bool, typer.Option("--force", help="Overwrite a file.")] = False,
    debug: DebugOption = False,
) -> None:
    """Write the timeline of a run as a trace for Perfetto (ui.perfetto.dev) or chrome://tracing: steps, phases, curves, memory,
    events, findings, and what a profiler recorded.
    """
    from ...analyzer import Trace  # noqa: PLC0415 # as above
    from ...analyzer.export.perfetto import export_trace  # noqa: PLC0415 # DuckDB need not be loaded for --help

    err = console(stderr=True)
    with command_errors(err, debug=debug), Trace(run) as trace:
        count = export_trace(trace, out, force=force)
    err.print(f"{count} events", markup=False, highlight=False)
    console().print(show_name(str(out)), markup=False, highlight=False, soft_wrap=True)

"""`firstfault export`: a run as a trace for Perfetto, or sent to an OpenTelemetry collector."""

from pathlib import Path
from typing import Annotated

import typer

from ..text.errors import ReportError
from ..text.wording import show_name
from .asked_language import speak_as_asked
from .common import (
    DebugOption,
    LangOption,
    add,
    command_errors,
    console,
    json_option,
    out_option,
    print_json,
)


def register(app: typer.Typer) -> None:
    """Add this command to the application."""
    add(app, "export", export_command)


def export_command(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of the run.")],
    out: Annotated[Path | None, out_option("FILE", "Such as trace.json or trace.json.gz.")] = None,
    otlp: Annotated[
        str | None,
        typer.Option(
            "--otlp", metavar="URL", help="Send the run to an OpenTelemetry collector, such as http://host:4318."
        ),
    ] = None,
    as_json: Annotated[bool, json_option("Print what was written or sent as JSON.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Overwrite a file.")] = False,
    lang: LangOption = None,
    debug: DebugOption = False,
) -> None:
    """Write the timeline of a run as a trace for Perfetto (ui.perfetto.dev) or chrome://tracing. It shows steps, phases, curves,
    memory, events, findings, and the events of a profiler. Or send it to an OpenTelemetry collector: steps as spans, curves as
    gauges, events and findings as events.
    """
    from ...analyzer import Trace  # noqa: PLC0415 # DuckDB need not be loaded for --help
    from ...analyzer.export.otlp import export_otlp  # noqa: PLC0415 # as above
    from ...analyzer.export.perfetto import export_trace  # noqa: PLC0415 # as above

    err = console(stderr=True)
    with command_errors(err, debug=debug):
        if (out is None) == (otlp is None):
            raise ReportError("export wants one of --out FILE and --otlp URL")
        speak_as_asked(lang, run)
        with Trace(run) as trace:
            if otlp is not None:
                made = dict(export_otlp(trace, otlp))
            else:
                made = {"events": export_trace(trace, Path(out or ""), force=force)}
    if as_json:
        print_json({"to": otlp if out is None else str(out), **made})
        return
    err.print(", ".join(f"{n} {what}" for what, n in made.items()), markup=False, highlight=False)
    if out is not None:
        console().print(show_name(str(out)), markup=False, highlight=False, soft_wrap=True)

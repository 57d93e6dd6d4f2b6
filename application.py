"""The application of the ``firstfault`` command: joins the sub-commands of the rooms.

Only the room that a command lives in is imported: `firstfault run` must not load DuckDB beside a training,
`firstfault report` must not need torch. A training node has not even the libraries of the analysis.
"""

from importlib import import_module
from typing import Annotated

import typer

from . import __version__

COMMANDS = (
    "preflight",
    "run",
    "diagnose",
    "report",
    "compare",
    "batch",
    "watch",
    "replay",
    "mre",
    "prove",
    "import",
    "export",
    "check",
    "sql",
    "rules",
    "demo",
)
"""In the order in which a person needs them."""

ROOMS = {name: f"reports.commands.{name}" for name in COMMANDS} | {
    "run": "recorder.cli",
    "import": "reports.commands.import_",  # a keyword of Python
}
"""Sub-command → its module, which has ``register(app)``."""


ANALYSIS = frozenset({"duckdb", "polars", "altair", "vl_convert", "jinja2", "numpy"})
"""Packages that a training node does without."""

NEEDS_ANALYSIS = "pip install 'firstfault[analysis]'"

_ANYTHING = {"ignore_unknown_options": True, "allow_extra_args": True}


def _not_installed(context: typer.Context) -> None:
    typer.echo(f"firstfault: `{context.info_name}` needs the libraries of the analysis; {NEEDS_ANALYSIS}", err=True)
    raise typer.Exit(2)


def _say_version(asked: bool) -> None:
    if asked:
        typer.echo(f"firstfault {__version__}")
        raise typer.Exit


def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_say_version, is_eager=True, help="Print the version and end.")
    ] = False,
) -> None:
    pass


def build_app(command: str | None = None) -> typer.Typer:
    """The application with the room of one command, or with all of them for help and unknown names."""
    app = typer.Typer(
        name="firstfault",
        help="Record a PyTorch training run; name the first step where something went wrong, its cause and fix.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        add_completion=False,
    )
    app.callback()(_options)  # without a callback typer makes an application of one command that command itself
    rooms = [ROOMS[command]] if command in ROOMS else sorted(set(ROOMS.values()))
    for room in rooms:
        try:
            import_module(f".{room}", __package__).register(app)
        except ModuleNotFoundError as e:
            if e.name not in ANALYSIS:
                raise
            from rich.markup import escape  # noqa: PLC0415 - `firstfault run` does without it

            for name in (n for n, r in ROOMS.items() if r == room):
                app.command(name, help=f"Not installed: {escape(NEEDS_ANALYSIS)}", context_settings=_ANYTHING)(
                    _not_installed
                )
    order = list(ROOMS)
    app.registered_commands.sort(key=lambda c: order.index(str(c.name)))
    return app

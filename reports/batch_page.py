"""The index over many runs: one HTML page that sorts and filters with a few lines of its own script, and a terminal summary."""

from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from .batch_index import IndexPage, loss_paths
from .page import MARKER, environment, own_text
from .terminal import COLOURS
from .wording import number, plural, show_name, spoken

CAUSES_SHOWN = 16
"""Causes that the page shows unfolded."""

_LISTED = 8


def render_index(page: IndexPage) -> str:
    """The whole file as text. Depends on the data alone."""
    return (
        environment()
        .get_template("index.html.j2")
        .render(
            page=page,
            style=own_text("page.css", "index.css"),
            script=own_text("theme.js", "index.js"),
            generator=MARKER,
            plural=plural,
            spoken=spoken,
            shown=CAUSES_SHOWN,
            loss_paths=loss_paths,
        )
    )


def print_index(console: Console, page: IndexPage, unchanged: int, path: Path) -> None:
    """Print how many runs came out how, the causes counted, what could not be read, and where the index lies."""
    title = Text(page.title, style="bold")
    if unchanged:
        title.append(f" ({number(unchanged)} unchanged)", style="dim")
    console.print(title)
    counted = [c for c in page.causes if not c.light]
    if counted:
        table = Table.grid(padding=(0, 2))
        table.add_column(justify="right")
        table.add_column()
        table.add_column(style="dim", overflow="fold")
        for cause in counted[:_LISTED]:
            words = Text(f"{cause.code} {cause.name}")
            table.add_row(Text(number(cause.runs), style=COLOURS["anomalous"]), words, Text(show_name(cause.example)))
        console.print(table)
        if len(counted) > _LISTED:
            console.print(Text(f"and {plural(len(counted) - _LISTED, 'more cause')}", style="dim"))
    for split in page.splits[:3]:
        words = f"{split.setting} {split.words}: {split.failed} of {split.runs} failed"
        console.print(Text(f"{words}, otherwise {split.other_failed} of {split.other_runs}"))
    unreadable = [r for r in page.rows if r.verdict == "unreadable"]
    for row in unreadable[:_LISTED]:
        console.print(Text(f"cannot be read: {row.name}: {row.note}"), soft_wrap=True)
    if len(unreadable) > _LISTED:
        console.print(Text(f"and {plural(len(unreadable) - _LISTED, 'more run')} that cannot be read"))
    console.print(str(path), markup=False, highlight=False, soft_wrap=True)

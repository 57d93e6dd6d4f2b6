"""Write the index over many runs: index.html with its own script, index.json, findings.parquet; print a summary."""

import io
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from ...analyzer.diagnosis.run_summary import findings_frame
from ..page.render import MARKER, environment, own_text
from ..page.terminal import COLOURS
from ..text.errors import ReportError
from ..text.language import say
from ..text.wording import number, plural, show_name, spoken
from .index import IndexPage, index_json, loss_paths
from .packed_rows import packed_rows
from .run import BatchRow, write_whole

CAUSES_SHOWN = 16
"""Causes that the page shows unfolded."""

ROWS_DRAWN = 200
"""Rows that are in the page as they are; the others are packed, and the script draws as many again when it is asked to."""

_LISTED = 8


def render_index(page: IndexPage) -> str:
    """The whole file as text. Depends on the data alone."""
    packed = page.rows[ROWS_DRAWN:]
    return (
        environment()
        .get_template("index.html.j2")
        .render(
            page=page,
            drawn=page.rows[:ROWS_DRAWN],
            packed=packed_rows(packed, {v: say(v) for v, _ in page.counts}) if packed else None,
            style=own_text("page.css", "index.css"),
            script=own_text("theme.js", "index.js"),
            generator=MARKER,
            plural=plural,
            spoken=spoken,
            shown=CAUSES_SHOWN,
            loss_paths=loss_paths,
        )
    )


def write_index(out: Path, page: IndexPage, rows: Sequence[BatchRow]) -> Path:
    """Write the three files of the index; returns the page's path. Raises ReportError where they cannot be written."""
    named = [{"run": r.name, "path": r.path, "run_id": r.summary.run_id, **f} for r in rows for f in r.summary.findings]
    table = io.BytesIO()
    findings_frame(named).write_parquet(table)
    try:
        write_whole(out / "index.json", index_json(rows, complete=page.complete))
        write_whole(out / "findings.parquet", table.getvalue())
        write_whole(out / "index.html", render_index(page).encode())
    except OSError as e:
        raise ReportError(f"{out}: the index cannot be written ({e.strerror}); choose another place with -o") from e
    return out / "index.html"


def print_index(console: Console, page: IndexPage, unchanged: int, path: Path) -> None:
    """Print how many runs came out how, the causes counted, what could not be read, and where the index lies."""
    title = Text(page.title, style="bold")
    if unchanged:
        title.append(say(" ({unchanged} unchanged)", unchanged=number(unchanged)), style="dim")
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
            console.print(Text(say("and {causes}", causes=plural(len(counted) - _LISTED, "more cause")), style="dim"))
    for split in page.splits[:3]:
        words = say(
            "{setting} {words}: {failed} of {runs} failed",
            setting=split.setting,
            words=split.words,
            failed=split.failed,
            runs=split.runs,
        )
        console.print(
            Text(
                say(
                    "{words}, otherwise {other_failed} of {other_runs}",
                    words=words,
                    other_failed=split.other_failed,
                    other_runs=split.other_runs,
                )
            )
        )
    unreadable = [r for r in page.rows if r.verdict == "unreadable"]
    for row in unreadable[:_LISTED]:
        console.print(Text(say("cannot be read: {name}: {note}", name=row.name, note=row.note)), soft_wrap=True)
    if len(unreadable) > _LISTED:
        console.print(Text(say("and {runs} that cannot be read", runs=plural(len(unreadable) - _LISTED, "more run"))))
    console.print(str(path), markup=False, highlight=False, soft_wrap=True)

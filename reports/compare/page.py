"""Two runs on one page, and in a few lines of a terminal."""

from pathlib import Path

from markupsafe import Markup
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ...analyzer.compare.comparison import shown_setting
from ..charts.curves_and_health import curves_chart
from ..charts.vega import vega_bundle
from ..page.render import MARKER, check_target, environment, json_for_script, own_text, write_html
from ..page.terminal import COLOURS
from ..text.language import say
from ..text.wording import plural
from .data import ComparePage


def write_comparison(page: ComparePage, path: Path, *, force: bool = False) -> Path:
    """Render and write the page; errors as of write_page."""
    check_target(path, force=force)
    return write_html(path, render_comparison(page))


def render_comparison(page: ComparePage) -> str:
    """The whole file as text. Depends on the data alone."""
    curves = curves_chart(page.curves, page.around, say("first difference"))
    return (
        environment()
        .get_template("compare.html.j2")
        .render(
            page=page,
            charts=json_for_script({"curves": curves, "health": {}}),
            has_curves=curves is not None,
            style=own_text("page.css"),
            script=own_text("theme.js", "page.js"),
            vega=Markup(vega_bundle()),  # noqa: S704 # checked for </script by vega_bundle
            generator=MARKER,
            plural=plural,
            zip=zip,
        )
    )


def print_comparison(console: Console, page: ComparePage) -> None:
    """Print the result, what explains it, and what else differs."""
    headline = page.headline
    title = Text()
    title.append(f" {headline.badge.upper()} ", style=f"bold reverse {COLOURS[headline.conclusion]}")
    title.append(" ")
    title.append(headline.title, style="bold")
    console.print(title)
    lines = Table.grid(padding=(0, 2))
    lines.add_column(style="dim", no_wrap=True)
    lines.add_column(overflow="fold")
    for label, words in comparison_lines(page):
        lines.add_row(say(label), Text(words))
    console.print(lines)


def comparison_lines(page: ComparePage) -> list[tuple[str, str]]:
    """The lines below the title as (label, words)."""
    headline = page.headline
    lines = [("A", page.names[0]), ("B", page.names[1])]
    if headline.code:
        lines.append(("rule", headline.code))
    lines.append(("", headline.message))
    if headline.fix:
        lines.append(("next", headline.fix))
    lines += [(label.lower(), words) for label, words in headline.facts]
    if page.settings is not None:
        shown = [f"{row[0]} ({row[3]}, {row[4]})" for row in page.settings.rows[:3]]
        lines.append(("settings", say(", ").join(shown) + _more(len(page.settings.rows), 3)))
    hashes = {shown_setting("seed", f"state of {generator}") for generator in ("random", "numpy.random")}
    for group, grid in page.differences:
        # the hash of a generator's state says nothing to a reader; where it matters the message names it
        rows = [row for row in grid.rows if row[0] not in hashes]
        shown = [f"{row[0]}: {row[1]} | {row[2]}" for row in rows[:3]]
        if rows:
            lines.append((group.split()[0].lower(), say("; ").join(shown) + _more(len(rows), 3)))
    wanted = {say("step time, median"), say("resident memory, most"), say("device memory, most")}
    pace = [f"{row[0]} {row[1]} | {row[2]}" for row in page.pace.rows if row[0] in wanted]
    lines.append(("speed", say("; ").join(pace)))
    if page.findings is not None:
        shown = [f"{row[0]}: {row[1]}" for row in page.findings.rows[:4]]
        lines.append(("findings", say(", ").join(shown) + _more(len(page.findings.rows), 4)))
    return lines


def _more(count: int, shown: int) -> str:
    return say(" and {count} more", count=count - shown) if count > shown else ""

"""Render a page: one HTML file that needs nothing else, the Vega scripts inside, every stranger's name escaped."""

import json
from functools import cache
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from ...analyzer import Trace
from ...analyzer.verdict import Verdict
from ..charts.curves_and_health import curves_chart, health_chart
from ..charts.vega import vega_bundle
from ..sections.module_health import HealthMap
from ..sections.module_heatmap import heat_json
from ..sections.step_player import replay_json
from ..text.errors import ForeignFileError, ReportError
from ..text.language import page_language, say, script_words
from ..text.wording import NOT_MEASURED, plural
from .data import PageData, reduce_page
from .share import shared

TEMPLATES = Path(__file__).parents[1] / "templates"
MARKER = '<meta name="generator" content="firstfault'
"""Stands in the first lines of every page: tells our own older report from a stranger's file."""

_MARKER_WITHIN = 600


def write_page(trace: Trace, verdict: Verdict, path: Path, *, force: bool = False) -> Path:
    """Reduce, render and write one report; returns its path.

    Raises ForeignFileError where a file stands that firstfault did not write, unless ``force``; ReportError where the
    page cannot be written.
    """
    check_target(path, force=force)
    return write_html(path, render_page(reduce_page(trace, verdict)))


def write_shared_page(trace: Trace, verdict: Verdict, path: Path, *, force: bool = False) -> list[str]:
    """The same without what strangers need not know; returns what was left out. Raises as ``write_page`` does."""
    check_target(path, force=force)
    page = shared(reduce_page(trace, verdict), trace)
    write_html(path, render_page(page))
    return page.left_out


def write_html(path: Path, html: str) -> Path:
    """Write a finished page so that a reader sees the old one or the new one. Raises ReportError where it cannot be."""
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_text(html, encoding="utf-8")
        temporary.replace(path)
    except OSError as e:
        raise ReportError(f"{path}: cannot be written ({e.strerror}); choose another place with -o") from e
    return path


def check_target(path: Path, *, force: bool) -> None:
    """Raise ForeignFileError where writing would destroy what firstfault did not write; ReportError for a folder."""
    if path.is_dir():
        raise ReportError(f"{path}: is a folder; name a file, such as {path / 'report.html'}")
    if force or not path.exists():
        return
    try:
        with path.open("r", encoding="utf-8", errors="replace") as f:
            start = f.read(_MARKER_WITHIN)
    except OSError as e:
        raise ReportError(f"{path}: exists and cannot be read ({e.strerror}); choose another place with -o") from e
    if MARKER not in start:
        raise ForeignFileError(f"{path}: was not written by firstfault and will not be overwritten without --force")


def render_page(page: PageData) -> str:
    """The whole file as text. Depends on the data alone."""
    curves = curves_chart(page.curves, page.around)
    charts: dict[str, Any] = {"curves": curves, "health": {m.kind: _sized(m) for m in page.health}}
    charts["panels"] = {p.key: p.chart for p in page.panels if p.chart is not None}
    if page.replay is not None:
        charts["replay"] = replay_json(page.replay)
    if page.heat is not None:
        charts["heat"] = heat_json(page.heat)
    return (
        environment()
        .get_template("page.html.j2")
        .render(
            page=page,
            charts=json_for_script(charts),
            has_curves=curves is not None,
            style=own_text("page.css", "replay.css", "heat.css"),
            script=own_text("theme.js", "page.js", "replay.js", "heat.js"),
            vega=Markup(vega_bundle()),  # noqa: S704 # the library that vl-convert ships, checked for </script
            generator=MARKER,
            plural=plural,
            zip=zip,
        )
    )


def json_for_script(value: Any) -> Markup:
    """JSON that can stand inside a script element whatever the names in it: no <, >, & or line separator is left."""
    text = json.dumps(value, allow_nan=False, ensure_ascii=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)  # noqa: S704 # every character that could end the element is escaped above


def _sized(health: HealthMap) -> dict[str, Any]:
    """A health chart with what the browser needs to choose its width."""
    return {
        "spec": health_chart(health),
        "first": health.first,
        "last": health.last,
        "marked": health.marked_step,
        "longest": max(len(m) for m in health.modules),
    }


@cache
def environment() -> jinja2.Environment:
    """Templates with autoescape: whatever a page is given is text unless it says otherwise."""
    made = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    words: dict[str, Any] = {
        "say": say,
        "language": page_language,
        "not_measured": lambda: say(NOT_MEASURED),
        "script_words": lambda: json_for_script(script_words()),
    }
    made.globals.update(words)
    return made


def own_text(*names: str) -> Markup:
    """Files of ours that go into a page as they are: style and scripts."""
    return Markup("".join((TEMPLATES / n).read_text(encoding="utf-8") for n in names))  # noqa: S704 # our own files

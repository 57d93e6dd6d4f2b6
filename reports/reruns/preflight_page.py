"""The page of a preflight: the answer, each check with what was done and seen, the first batch."""

import math
from dataclasses import dataclass
from pathlib import Path

from ..page.render import MARKER, check_target, environment, own_text, write_html
from ..text.language import say
from ..text.wording import number
from .preflight import AREAS, Check, Preflight

_WIDTH, _HEIGHT = 320, 90


@dataclass(frozen=True, slots=True)
class Drawing:
    """A curve as points of an SVG polyline, with what its ends are."""

    points: str
    left: str
    right: str
    low: str
    high: str


def write_preflight(found: Preflight, path: Path, *, force: bool = False) -> Path:
    """Render and write the page. Raises as ``page.write_page`` does."""
    check_target(path, force=force)
    return write_html(path, render_preflight(found))


def render_preflight(found: Preflight) -> str:
    """The whole file as text. Depends on what was found alone."""
    areas = [(area, found.outcome(area), [(c, draw(c)) for c in found.of(area)]) for area in AREAS]
    return (
        environment()
        .get_template("preflight.html.j2")
        .render(
            found=found,
            areas=areas,
            colour={"go": "healthy", "stop": "anomalous", "doubtful": "inconclusive"}[found.answer],
            lead=LEADS[found.answer](),
            style=own_text("page.css"),
            script=own_text("theme.js"),
            generator=MARKER,
        )
    )


LEADS = {
    "go": lambda: say("Nothing speaks against starting it."),
    "doubtful": lambda: say("Look at what is marked before you start it."),
    "stop": lambda: say("Do not start it as it is."),
}


def draw(check: Check) -> Drawing | None:
    """A check's curve; learning rates on a logarithmic axis."""

    points = [(x, y) for x, y in check.curve if math.isfinite(x) and math.isfinite(y)]
    if len(points) < 3:
        return None
    if check.name == "lr-range":
        points = [(math.log10(x), y) for x, y in points if x > 0]
    xs, ys = [p[0] for p in points], [p[1] for p in points]
    wide, high = (max(xs) - min(xs)) or 1.0, (max(ys) - min(ys)) or 1.0
    placed = [
        (f"{(x - min(xs)) / wide * _WIDTH:.1f}", f"{_HEIGHT - (y - min(ys)) / high * _HEIGHT:.1f}") for x, y in points
    ]
    ends = [10 ** xs[0], 10 ** xs[-1]] if check.name == "lr-range" else [xs[0], xs[-1]]
    return Drawing(" ".join(",".join(p) for p in placed), *(number(v, 3) for v in (*ends, min(ys), max(ys))))

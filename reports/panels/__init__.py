"""The folded part of the page: one panel for each side of a run; what was not recorded has none."""

from ...analyzer import Trace
from .data import data_panel
from .device import device_panel
from .distributions import spread_panel
from .events import happenings_panel
from .flame import flame_panel
from .memory import memory_panel
from .optimizer import optimizer_panel
from .panel import Panel
from .ranks import ranks_panel
from .recording import recording_panel
from .snapshot import snapshot_panel
from .time import time_panel

PANELS = (
    spread_panel,
    optimizer_panel,
    data_panel,
    time_panel,
    device_panel,
    flame_panel,
    memory_panel,
    snapshot_panel,
    ranks_panel,
    happenings_panel,
    recording_panel,
)
"""In the order of the page."""


def reduce_panels(trace: Trace, rank: int, around: int | None, suspect: str | None) -> list[Panel]:
    """All panels that have something to show. ``around``: first bad step, ``suspect``: module of the first cause."""
    panels = [make(trace, rank, around, suspect) for make in PANELS]
    return [p for p in panels if p is not None]

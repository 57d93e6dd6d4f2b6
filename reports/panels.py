"""The folded part of the page: one panel for each side of a run; what was not recorded has none."""

from ..analyzer import Trace
from .calls_panel import calls_panel
from .data_panel import data_panel
from .device_panel import device_panel
from .flame_panel import flame_panel
from .happenings_panel import happenings_panel
from .memory_panel import memory_panel
from .optimizer_panel import optimizer_panel
from .panel import Panel
from .profile_memory_panel import profile_memory_panel
from .ranks_panel import ranks_panel
from .recording_panel import recording_panel
from .snapshot_panel import snapshot_panel
from .spread_panel import spread_panel
from .time_panel import time_panel

PANELS = (
    spread_panel,
    optimizer_panel,
    data_panel,
    time_panel,
    device_panel,
    flame_panel,
    memory_panel,
    snapshot_panel,
    profile_memory_panel,
    ranks_panel,
    calls_panel,
    happenings_panel,
    recording_panel,
)
"""In the order of the page."""


def reduce_panels(trace: Trace, rank: int, around: int | None, suspect: str | None) -> list[Panel]:
    """All panels that have something to show. ``around``: first bad step, ``suspect``: module of the first cause."""
    panels = [make(trace, rank, around, suspect) for make in PANELS]
    return [p for p in panels if p is not None]

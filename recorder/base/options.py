"""What the user asked of the recorder. Kept in run.json, so that every process of the run and every reader knows it."""

import re
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from ...schemas import RunManifest
from ...schemas.files.layout import RUN_JSON


class Options(msgspec.Struct, kw_only=True, forbid_unknown_fields=False):
    """Options of one run; the defaults are what `firstfault run` does without any."""

    budget: float | None = 0.02
    """Share of the step time that the recorder may take once the grace is used up; costly kinds are thinned to keep it.
    None: no limit."""
    grace_s: float = 1.5
    """Seconds that recording may take over the whole run before the budget is enforced; see session/budget.py for where it ends
    earlier."""
    every: int = 1
    """Measure the costly kinds at every so many steps, at most."""
    include: list[str] = []
    """Patterns of module or tensor names to measure; empty means all."""
    exclude: list[str] = []
    """Patterns of names not to measure; stronger than ``include``."""
    disk_limit_bytes: int | None = None
    """Size that the run folder may have; beyond it statistics of tensors are thinned, oldest first. None: no limit."""
    keep: int = 100
    """Steps of full detail that stay at the start, at the end, and on both sides of whatever happened in between."""
    on_nonfinite: str = "capture"
    """What happens at a loss or gradient that is not finite: record, capture, skip, stop, rollback or
    restore, these two with ``:N`` behind them for N lost steps in a row (3)."""
    snapshots: str = "auto"
    """When the state of the training is kept: auto, off or every=N; with ``,SIZE`` behind it the bytes of all of them."""
    memory_history: int = 0
    """Events that the CUDA allocator keeps with the lines that caused them; 0: none."""
    profile: str = "off"
    """Windows of torch.profiler: auto, off, every=N, or START:STOP; with ``,stacks`` behind it calls of Python functions too."""
    hang_timeout_s: float | None = None
    """Seconds without progress that count as a hang; None: 20 usual steps, at least five minutes."""
    hang_kill: bool = False
    """End a hanging run once its stacks are saved."""
    without: list[str] = []
    """Names of watches that are left out; see session/watch.py."""
    keep_secrets: bool = False
    """Write tokens, keys and passwords as they are."""


class ProfilePlan(NamedTuple):
    """Which steps are profiled: kind off, auto, every (``every``) or range (from ``start`` up to before ``stop``)."""

    kind: str
    every: int = 0
    start: int = 0
    stop: int = 0
    stacks: bool = False
    """Whether calls of Python functions are recorded too."""


_PROFILE = re.compile(
    r"off|(?:(?P<word>auto)|every=(?P<every>[1-9]\d*)|(?P<start>\d+):(?P<stop>\d+))(?P<stacks>,stacks)?"
)


def profile_plan(text: str) -> ProfilePlan:
    """What the option ``profile`` says. Raises ValueError."""
    found = _PROFILE.fullmatch(text.strip().lower())
    if found is None or (found["start"] and int(found["stop"]) <= int(found["start"])):
        raise ValueError(
            "wants auto, off, every=N or START:STOP (steps from START up to before STOP), and ,stacks behind it for the script's"
            " functions"
        )
    stacks = found["stacks"] is not None
    if found["every"]:
        return ProfilePlan("every", every=int(found["every"]), stacks=stacks)
    if found["start"]:
        return ProfilePlan("range", start=int(found["start"]), stop=int(found["stop"]), stacks=stacks)
    return ProfilePlan(found["word"] or "off", stacks=stacks)


class SnapshotPlan(NamedTuple):
    """When snapshots are taken: kind off, auto or every (``every`` steps); ``bytes`` of all of them, 0 where nobody said."""

    kind: str
    every: int = 0
    bytes: int = 0


_SNAPSHOTS = re.compile(r"(?P<word>off|auto)?(?:every=(?P<every>[1-9]\d*))?(?:,(?P<bytes>\d+))?")


def snapshot_plan(text: str) -> SnapshotPlan:
    """What the option ``snapshots`` says. Raises ValueError."""
    found = _SNAPSHOTS.fullmatch(text.strip().lower())
    if found is None or bool(found["word"]) == bool(found["every"]):
        raise ValueError("wants auto, off or every=N, and ,SIZE behind it for the room of all snapshots")
    room = int(found["bytes"] or 0)
    return SnapshotPlan("every", int(found["every"]), room) if found["every"] else SnapshotPlan(found["word"], 0, room)


def options_of(run: Path) -> Options:
    """Options of a run folder. A folder without a readable manifest gives the defaults: a script must run all the same."""
    try:
        manifest = msgspec.json.decode((run / RUN_JSON).read_bytes(), type=RunManifest)
        return msgspec.convert(manifest.options, Options)
    except (OSError, msgspec.MsgspecError):
        return Options()


def as_json(options: Options) -> dict[str, Any]:
    """For the manifest."""
    return msgspec.to_builtins(options)

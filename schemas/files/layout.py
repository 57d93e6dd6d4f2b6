"""Where things lie in a run folder. The only place that spells file names.

    RUN/run.json, exit.json, output.log
    RUN/<table>/rank=0000/part-000017.parquet
    RUN/<table>/rank=0000/part-000000-000015.parquet   parts 0 to 15 merged into one
    RUN/journal/rank=0000/step_values-000018.arrows   Arrow IPC stream: rows of all tables, one value per step
    RUN/journal/rank=0000/<table>-000018.arrows    the same of one table that has many rows a step, one batch per step
    RUN/journal/rank=0000/written.bin              memory-mapped: how far the writer of these segments came
    RUN/checksums.json                             size and checksum of every file that has none within, once the run has ended
    RUN/breadcrumb/rank=0000.bin                   memory-mapped: where the process stands right now
    RUN/breadcrumb/rank=0000.rows                  memory-mapped: its last rows of unwatched_steps, which the journal may lack
    RUN/native/rank=0000.txt                       native stack of a crash, by faulthandler
    RUN/native/rank=0000-memory-oom-step=000412.pickle   snapshot of the CUDA allocator, for torch's own viewer too
    RUN/exception-rank=0000.json                   ExceptionRecord of the exception that ended a rank
    RUN/attempts/0001/                             what a resumed run keeps of its first attempt, tables apart
    RUN/captures/step=000412-rank=0000/            meta.json (CaptureMeta) and tensors, loadable with weights_only
    RUN/snapshots/step=00000412.safetensors        SnapshotMeta and tensors: the state of the training after a step
    RUN/profiles/rank=0000/window-000003.json      trace of a profiler window, until it is in profiler_events
    RUN/exception-pid=123.json                     the same of a process that recorded nothing, such as a launcher
    RUN/unrecorded/rank=0000-pid=123               a process that trained as a rank that another one had claimed
    RUN/processes/pid=123.json                     ProcessNote: a process imported torch, and what the recorder met there

Segments k of the journal become part k of each table; where both exist the part wins, so no row is read twice. For the same
reason a merged part wins over every part and segment whose number lies in its range.
"""

import re
from pathlib import Path
from typing import NamedTuple

RUN_JSON = "run.json"
EXIT_JSON = "exit.json"
EXIT_RESERVE = "exit.json.reserve"
"""Space set aside for exit.json while the script runs; holds the record itself where the folder could not take a new file."""
OUTPUT_LOG = "output.log"
CHECKSUMS_JSON = "checksums.json"
CAPTURES = "captures"
PROFILES = "profiles"
META_JSON = "meta.json"
JOURNAL = "journal"
PROCESSES = "processes"

ENV_RUN = "FIRSTFAULT_RUN"
"""Environment variable with the absolute run folder: tells a child process to attach."""

_RANK = re.compile(r"rank=(\d+)$")
_SEGMENT = re.compile(r"(?P<table>[a-z_]+)-(?P<index>\d{6})\.arrows$")
_PART = re.compile(r"part-(?P<first>\d{6})(?:-(?P<last>\d{6}))?\.parquet$")

SUPERVISOR_RANK = -1
"""Rank folder of tables that the supervisor writes (system_samples)."""


def rank_folder(rank: int) -> str:
    """Folder name of one rank; the supervisor's own rows lie beside the ranks'."""
    return "supervisor" if rank == SUPERVISOR_RANK else f"rank={rank:04d}"


def rank_of(folder: str) -> int | None:
    """Rank of a folder name, None if it is not one."""
    if folder == "supervisor":
        return SUPERVISOR_RANK
    m = _RANK.match(folder)
    return int(m[1]) if m else None


def segment_path(run: Path, rank: int, table: str, index: int) -> Path:
    """One journal segment."""
    return run / JOURNAL / rank_folder(rank) / f"{table}-{index:06d}.arrows"


def written_path(run: Path, rank: int) -> Path:
    """How far the writer of a rank's segments came."""
    return run / JOURNAL / rank_folder(rank) / "written.bin"


def part_path(run: Path, rank: int, table: str, index: int, last: int | None = None) -> Path:
    """One Parquet part; with ``last`` the one that parts ``index`` to ``last`` were merged into."""
    numbers = f"{index:06d}" if last is None or last == index else f"{index:06d}-{last:06d}"
    return run / table / rank_folder(rank) / f"part-{numbers}.parquet"


def breadcrumb_path(run: Path, rank: int) -> Path:
    """The memory-mapped breadcrumb of one rank."""
    return run / "breadcrumb" / f"{rank_folder(rank)}.bin"


def unwatched_rows_path(run: Path, rank: int) -> Path:
    """The memory-mapped last rows of `unwatched_steps` of one rank."""
    return run / "breadcrumb" / f"{rank_folder(rank)}.rows"


def memory_snapshot_path(run: Path, rank: int, trigger: str, step: int) -> Path:
    """Snapshot of the CUDA allocator, taken because of a trigger."""
    return run / "native" / f"{rank_folder(rank)}-memory-{trigger}-step={step:06d}.pickle"


def native_stack_path(run: Path, rank: int) -> Path:
    """Where faulthandler writes the stacks of a native crash."""
    return run / "native" / f"{rank_folder(rank)}.txt"


def exception_path(run: Path, rank: int, pid: int | None = None) -> Path:
    """Where a rank writes the exception that ends it (an ExceptionRecord as JSON); with ``pid``, a process that is none."""
    return run / (f"exception-{rank_folder(rank)}.json" if pid is None else f"exception-pid={pid}.json")


def exception_paths(run: Path) -> list[Path]:
    """Every exception of a run, of ranks and of other processes."""
    return [*run.glob("exception-rank=*.json"), *run.glob("exception-pid=*.json")]


def unrecorded_path(run: Path, rank: int, pid: int) -> Path:
    """Left empty by a process that trained, but whose rank another process records."""
    return run / "unrecorded" / f"{rank_folder(rank)}-pid={pid}"


def attempt_folder(run: Path, attempt: int) -> Path:
    """Where the exit record, breadcrumbs, stacks and output of an attempt lie once the run has been resumed."""
    return run / "attempts" / f"{attempt:04d}"


def profile_path(run: Path, rank: int, window: int) -> Path:
    """The trace of a profiler window, as the profiler wrote it."""
    return run / PROFILES / rank_folder(rank) / f"window-{window:06d}.json"


def capture_name(step: int, rank: int) -> str:
    """Folder name of the capture of one step."""
    return f"step={step:06d}-{rank_folder(rank)}"


def segments(run: Path) -> list[tuple[int, str, int, Path]]:
    """All journal segments as (rank, table, index, path), in time order."""
    found: list[tuple[int, str, int, Path]] = []
    root = run / JOURNAL
    if not root.is_dir():
        return found
    for folder in root.iterdir():
        rank = rank_of(folder.name)
        if rank is None or not folder.is_dir():
            continue
        for path in folder.iterdir():
            m = _SEGMENT.match(path.name)
            if m:
                found.append((rank, m["table"], int(m["index"]), path))
    return sorted(found, key=lambda f: f[:3])


class Part(NamedTuple):
    """A Parquet part and the numbers of the segments whose rows it holds."""

    rank: int
    first: int
    last: int
    path: Path

    def holds(self, rank: int, index: int) -> bool:
        """Whether the rows of a segment, or of the part made of it, are in this one."""
        return rank == self.rank and self.first <= index <= self.last


def parts(run: Path, table: str) -> list[Part]:
    """The parts of a table that hold its rows, in time order. Parts that have been merged into another are left out."""
    return _all_parts(run, table)[0]


def merged_away(run: Path, table: str) -> list[Path]:
    """Parts whose rows a merged part holds too: left for readers that had already seen them, or by a crash."""
    return _all_parts(run, table)[1]


def _all_parts(run: Path, table: str) -> tuple[list[Part], list[Path]]:
    found: list[Part] = []
    root = run / table
    if not root.is_dir():
        return [], []
    for folder in root.iterdir():
        rank = rank_of(folder.name)
        if rank is None or not folder.is_dir():
            continue
        for path in folder.iterdir():
            m = _PART.match(path.name)
            if m:
                found.append(Part(rank, int(m["first"]), int(m["last"] or m["first"]), path))
    kept: list[Part] = []
    covered: list[Path] = []
    for part in sorted(found, key=lambda p: (p.rank, p.first, -p.last)):
        if kept and kept[-1].rank == part.rank and part.last <= kept[-1].last:
            covered.append(part.path)
        else:
            kept.append(part)
    return kept, covered

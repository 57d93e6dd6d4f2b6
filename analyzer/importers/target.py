"""The run folder that an import writes: built beside its place, moved there when it is whole: a failure leaves nothing."""

import json
import math
import shutil
import time
import uuid
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

import pyarrow as pa

from ...schemas import TABLES, ExitRecord, RunManifest, write_json
from ...schemas.files.integrity import write_checksums
from ...schemas.files.layout import EXIT_JSON, RUN_JSON, part_path
from ...schemas.files.parts import table_of, write_part
from ...schemas.files.seals import seal_file
from ..errors import ImportFileError
from .call_record import CallRecord
from .curve_names import no_loss

Row = dict[str, Any]

_A_DATE_NS = 10**18
"""Later moments count from 1970, earlier ones from the start of a machine."""


class Choices(NamedTuple):
    """Columns that the person who imports a file has named: the losses, the step, the learning rates, scores to judge."""

    loss: tuple[str, ...] = ()
    step: str | None = None
    lr: tuple[str, ...] = ()
    metric: tuple[str, ...] = ()


class RunTarget:
    """Collects rows of small tables, hands out the next free part of large ones, and writes the two JSON files at the end.

    A context manager: leaving it with an error, or without ``finish``, removes what was written. Raises ImportFileError
    where ``out`` already holds something.
    """

    def __init__(self, out: Path, choices: Choices | None = None) -> None:
        self.out = out
        self.choices = choices or Choices()
        if out.exists() and (not out.is_dir() or any(out.iterdir())):
            raise ImportFileError(f"{out}: is there already, and nothing is overwritten; give another --out")
        self.folder = out.parent / f".{out.name}.importing-{uuid.uuid4().hex[:8]}"
        try:
            self.folder.mkdir(parents=True)
        except OSError as e:
            raise ImportFileError(f"{out}: cannot be written ({e.strerror}); give another --out") from e
        self.versions: dict[str, str] = {}
        self.facts: dict[str, Any] = {}
        """What the files say of the run as a whole: hostname, world_size, started_ns, config …"""
        self.chosen_columns: dict[str, list[str]] = {}
        """Each choice of a column, and the files that have it."""
        self.columns_seen: list[str] = []
        self.without_loss: dict[str, list[str]] = {}
        """Files with curves of which none is the loss, and their columns."""
        self.snapshot_ranks: set[int] = set()
        """Ranks of which there is a snapshot of the device's memory."""
        self.written_ns: list[int] = []
        """When the files were last written, for a run that knows no times."""
        self._steps: dict[tuple[int, int, int], Row] = {}
        self._rows: dict[tuple[str, int], list[Row]] = {}
        self._parts: Counter[tuple[str, int]] = Counter()
        self._windows: Counter[int] = Counter()
        self._stacks: Counter[int] = Counter()
        self.calls = CallRecord()
        """What the dumps of the ranks' calls say together."""
        self.moments: list[int] = []
        """When traces began and ended, in ns; of some only since the machine started."""
        self.workers: dict[str, int] = {}
        """Worker of a profiler that does not tell its rank → the rank it was given."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)  # after finish there is none

    # -- rows ---------------------------------------------------------------------------------------------------------------

    def add(self, table: str, row: Row) -> None:
        """One row of a table other than `steps`; rank 0 unless it says otherwise."""
        self._rows.setdefault((table, int(row.get("rank") or 0)), []).append({"rank": 0, **row})

    def rows_of(self, table: str) -> list[Row]:
        """Rows of a table that were added so far, of all ranks."""
        return [row for (name, _), rows in self._rows.items() if name == table for row in rows]

    def step(self, rank: int, step: int, source: Path, *, optimizer_id: int | None = None, **columns: Any) -> None:
        """What is known of one step; several files may tell different things of it, but not the same thing twice."""
        key = (rank, step, -1 if optimizer_id is None else optimizer_id)
        row = self._steps.setdefault(key, {"rank": rank, "step": step, "completed": True})
        if optimizer_id is not None:
            row["optimizer_id"] = optimizer_id
        for name, value in columns.items():
            if value is None:
                continue
            self._refuse_another(source, row, name, value)
            row.setdefault(name, value)

    def known_steps(self) -> Iterable[Row]:
        """What is known of each step so far."""
        return self._steps.values()

    def refuse_another(
        self, rank: int, step: int, source: Path, columns: Row, *, optimizer_id: int | None = None
    ) -> None:
        """Raise ImportFileError where another file has said something else of a step; nothing is added."""
        row = self._steps.get((rank, step, -1 if optimizer_id is None else optimizer_id), {})
        for name, value in columns.items():
            self._refuse_another(source, row, name, value)

    @staticmethod
    def _refuse_another(source: Path, row: Row, name: str, value: Any) -> None:
        if row.get(name) is not None and name != "time_ns" and not _same(row[name], value):
            raise ImportFileError(
                f"{source}: says {name} = {value} of step {row['step']}, another file said {row[name]}; import runs one by one"
            )

    def event(
        self, event: str, message: str, *, rank: int = 0, step: int | None = None, detail: str | None = None
    ) -> None:
        """A row of `events` about the import itself."""
        self.add(
            "events", {"rank": rank, "time_ns": 0, "step": step, "event": event, "message": message, "detail": detail}
        )

    def next_part(self, table: str, rank: int) -> Path:
        """Where the next part of a large table goes."""
        index = self._parts[table, rank]
        self._parts[table, rank] += 1
        path = part_path(self.folder, rank, table, index)
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def write(self, table: str, rank: int, rows: pa.Table) -> None:
        """Write rows of a table as its next part; a power cut leaves no run folder at all, so nothing is flushed."""
        write_part(self.next_part(table, rank), table, rows, durable=False)

    def next_window(self, rank: int) -> int:
        """Number of the next trace file of a rank."""
        self._windows[rank] += 1
        return self._windows[rank] - 1

    def next_timeline(self) -> int:
        """Rank of the next memory timeline: the first whose device's memory is not told of yet."""
        rank = next(rank for rank in range(len(self.snapshot_ranks) + 1) if rank not in self.snapshot_ranks)
        self.snapshot_ranks.add(rank)
        return rank

    def next_stack(self, rank: int) -> int:
        """Number of the next call stack of a rank."""
        self._stacks[rank] += 1
        return self._stacks[rank] - 1

    def write_out(self, table: str, rank: int) -> None:
        """Write the rows of a rank that were added so far, and hold them no longer."""
        rows = self._rows.pop((table, rank), [])
        if rows:
            self.write(table, rank, table_of(TABLES[table], rows))

    @property
    def traced_ranks(self) -> set[int]:
        """Ranks of which there is a trace."""
        return set(self._windows)

    # -- the end ------------------------------------------------------------------------------------------------------------

    def finish(self, argv: list[str], sources: Iterable[Row], version: str) -> RunManifest:
        """Write everything and move the folder to its place. Returns what run.json says."""
        for (rank, _, _), row in sorted(self._steps.items()):
            self._rows.setdefault(("steps", rank), []).append({"time_ns": 0, **row})
        if not self._rows and not self._parts:
            raise ImportFileError(f"{argv[0]}: holds nothing that a run is made of")
        if self.without_loss and not any("loss" in row for row in self._steps.values()):
            for file, columns in self.without_loss.items():
                detail = json.dumps({"file": file, "columns": columns}, ensure_ascii=False)
                self.event("loss-not-found", f"{file}: {no_loss(columns)}.", detail=detail)
        ranks = {rank for _, rank in self._rows} | {rank for _, rank in self._parts}
        known = self.facts.get("world_size")
        for rank in sorted(ranks):
            row = {
                "rank": rank,
                "world_size": known or len(ranks),
                "hostname": self.facts.get("hostname"),
                "time_ns": 0,
            }
            self._rows.setdefault(("ranks", rank), []).append(row)
        times = [row["time_ns"] for row in self._steps.values() if row.get("time_ns")]
        times += [row["time_ns"] for row in self.rows_of("metrics") if row.get("time_ns")]
        for table, rank in list(self._rows):
            self.write_out(table, rank)
        written = self.written_ns or [time.time_ns()]
        times += [moment for moment in self.moments if moment > _A_DATE_NS]
        started = self.facts.get("started_ns") or min(times, default=min(written))
        imported = list(sources)
        manifest = RunManifest(
            run_id=uuid.uuid4().hex,
            firstfault_version=version,
            argv=argv,
            script=str(imported[0]["file"]) if imported else "",
            cwd=str(Path.cwd()),
            started_ns=started,
            hostname=str(self.facts.get("hostname") or ""),
            pid=0,
            python="",
            platform="",
            versions=self.versions,
            world_size=max(known or 0, max(ranks) + 1),
            supervised=False,
            config=self.facts.get("config") or {},
            options={"imported": imported},
        )
        write_json(self.folder / RUN_JSON, manifest)
        write_json(
            self.folder / EXIT_JSON,
            ExitRecord(
                status=str(self.facts.get("status") or "completed"),
                ended_ns=max(times, default=max(written)),
                recorded_ranks=len(ranks),
                note="imported from files that do not tell how the run ended",
            ),
        )
        for part in self.folder.glob("*/*/part-*.parquet"):
            seal_file(part)
        write_checksums(self.folder)
        if self.out.exists():
            self.out.rmdir()  # empty, as was seen at the start
        self.folder.rename(self.out)
        return manifest


def _same(a: Any, b: Any) -> bool:
    return bool(a == b) or (isinstance(a, float) and isinstance(b, float) and math.isnan(a) and math.isnan(b))

"""Run folders written by hand: the schemas' own declarations, real Parquet parts or journal segments."""

import itertools
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from firstfault.analyzer.case_tables import Rows, arrow, exit_record, filled, manifest, write_part
from firstfault.schemas import TABLES, write_json
from firstfault.schemas.layout import EXIT_JSON, RUN_JSON, segment_path
from firstfault.schemas import TABLES, ExceptionRecord, ExitRecord, LastPosition, Phase, RunManifest, Table, write_json
from firstfault.schemas.layout import EXIT_JSON, RUN_JSON, part_path, segment_path

Rows = Sequence[Mapping[str, Any]]

DEFAULTS: dict[str, dict[str, Any]] = {
    "ranks": {"rank": 0, "world_size": 1},
    "modules": {"rank": 0, "model": "model", "own_numel": 0, "depth": 0},
    "tensors": {"rank": 0, "dtype": "float32", "device": "cpu", "requires_grad": True},
    "tensor_stats": {
        "rank": 0, "microbatch": 0, "seq": 0, "phase": "forward", "numel": 100, "nan_count": 0, "inf_count": 0,
        "min": -1.0, "max": 1.0, "sum": 0.0, "sum_sq": 10.0, "missing": False,
    },
    "steps": {
        "rank": 0, "optimizer_id": 0, "completed": True, "stepped": True, "skipped_by_scaler": False, "microbatches": 1,
        "time_ns": 0, "training": True,
    },
    "param_groups": {"rank": 0, "optimizer_id": 0, "group_id": 0, "optimizer": "AdamW", "lr": 1e-3, "eps": 1e-8},
    "batches": {"rank": 0, "microbatch": 0, "seq": 0, "phase": "data", "role": "input", "dtype": "float32"},
    "operators": {
        "rank": 0, "microbatch": 0, "seq": 0, "phase": "forward", "dtype": "float32", "numel": 100, "nan_count": 0,
        "inf_count": 0, "zero_count": 0, "trigger": "nonfinite",
    },
    "schedulers": {"rank": 0, "steps": 1, "total_steps": 1, "before_optimizer": False, "lr": 1e-3},
    "module_modes": {"rank": 0, "microbatch": 0, "seq": 0, "training": True, "grad": True},
    "metrics": {"rank": 0, "time_ns": 0},
    "recorder_stats": {"rank": 0, "time_ns": 0},
    "events": {"rank": 0, "time_ns": 0},
    "system_samples": {"time_ns": 0},
    "thinned": {"rank": 0, "time_ns": 0, "rows": 1},
}  # fmt: skip
"""What a row of a case holds where it does not say: the ordinary, healthy value. Everything else is null."""


def filled(table: str, rows: Rows) -> list[dict[str, Any]]:
    """Rows with the defaults of their table; an unknown column is a mistake of the case."""
    known = set(TABLES[table].column_names)
    for row in rows:
        unknown = set(row) - known
        assert not unknown, f"{table} has no column {sorted(unknown)}"
    return [{**DEFAULTS[table], **row} for row in rows]


def arrow(table: Table, rows: Rows) -> pa.Table:
    """Rows in the declared schema, phases by number."""

    def value(row: Mapping[str, Any], name: str) -> Any:
        v = row.get(name)
        return int(Phase[v.upper()]) if name == "phase" and isinstance(v, str) else v

    arrays = [pa.array([value(r, c.name) for r in rows], c.type) for c in table.columns]
    return pa.Table.from_arrays(arrays, schema=table.schema)


def write_part(run: Path, name: str, rows: Rows, *, index: int = 0, rank: int = 0) -> Path:
    """One Parquet part."""
    path = part_path(run, rank, name, index)
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(arrow(TABLES[name], rows), path)
    return path


def write_segment(run: Path, name: str, batches: Sequence[Rows], *, index: int = 0, rank: int = 0) -> Path:
    """One journal segment: the schema once, one record batch per append, no end marker."""
    path = segment_path(run, rank, name, index)
    path.parent.mkdir(parents=True, exist_ok=True)
    table = TABLES[name]
    with path.open("wb") as f:
        f.write(table.schema.serialize())
        for rows in batches:
            for batch in arrow(table, rows).to_batches():
                f.write(batch.serialize())
    return path


WriteRun = Callable[..., Path]


@pytest.fixture
def write_run(tmp_path: Path) -> WriteRun:
    """Write a run folder: ``write_run(steps=[{...}], exit={...})``; ``exit=None`` leaves the exit record out."""
    counter = itertools.count()

    def write(*, exit: Mapping[str, Any] | None = {}, name: str | None = None, **tables: Rows) -> Path:  # noqa: A002
        run = tmp_path / (name or f"run-{next(counter)}")
        run.mkdir()
        write_json(run / RUN_JSON, manifest(started_ns=time.time_ns()))
        if exit is not None:
            write_json(run / EXIT_JSON, exit_record(**exit))
        for table, rows in tables.items():
            write_part(run, table, filled(table, rows))
        return run

    return write


@pytest.fixture
def folder() -> SimpleNamespace:
    """The builder's functions, for tests that lay out a folder piece by piece."""
    return SimpleNamespace(
        arrow=arrow, filled=filled, manifest=manifest, write_part=write_part, write_segment=write_segment
    )

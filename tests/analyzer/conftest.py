"""Run folders written by hand: the schemas' own declarations, real Parquet parts or journal segments."""

import itertools
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from firstfault.analyzer.rule_cases.case_tables import exit_record, filled, manifest, write_part
from firstfault.schemas import TABLES, write_json
from firstfault.schemas.files.layout import EXIT_JSON, RUN_JSON, segment_path
from firstfault.schemas.files.parts import Rows, table_of


def write_segment(run: Path, name: str, batches: Sequence[Rows], *, index: int = 0, rank: int = 0) -> Path:
    """One journal segment: the schema once, one record batch per append, no end marker."""
    path = segment_path(run, rank, name, index)
    path.parent.mkdir(parents=True, exist_ok=True)
    table = TABLES[name]
    with path.open("wb") as f:
        f.write(table.schema.serialize())
        for rows in batches:
            for batch in table_of(table, rows).to_batches():
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
        arrow=table_of, filled=filled, manifest=manifest, write_part=write_part, write_segment=write_segment
    )

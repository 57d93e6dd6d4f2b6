"""Recordings of earlier versions are read: what they do not have is null, and what they show is still named."""

import math
import tomllib
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from firstfault.analyzer import Trace, diagnose
from firstfault.reports.page.data import reduce_page
from firstfault.reports.page.render import render_page
from firstfault.schemas import TABLES
from firstfault.schemas.files.layout import parts
from firstfault.schemas.files.parts import write_part

VERSIONS: dict[str, dict[str, str]] = tomllib.loads(
    Path(__file__).with_name("earlier_versions.toml").read_text(encoding="utf-8")
)
BROKEN = 12
"""Step from which the loss of the run is lost."""


def as_recorded_then(run: Path, columns: dict[str, str]) -> None:
    """Leave of each part the columns that the version had, in its order."""
    for table, names in columns.items():
        for part in parts(run, table):
            held = pq.read_table(part.path)
            assert set(held.column_names) - set(names.split()), "this version has every column: the test shows nothing"
            kept = held.select([name for name in names.split() if name in held.column_names])
            write_part(part.path, table, kept, durable=False)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_recording_of_an_earlier_version_is_judged_and_drawn(version: str, write_run: Any) -> None:
    lost = [math.nan if step >= BROKEN else 2.0 - step / 20 for step in range(20)]
    run = write_run(
        steps=[{"step": step, "loss": loss, "grad_norm": loss} for step, loss in enumerate(lost)],
        batches=[{"step": step, "tensor_id": 1, "fingerprint": step} for step in range(20)],
        tensors=[{"tensor_id": 1, "tensor_name": "x", "kind": "input"}],
    )
    as_recorded_then(run, {t: VERSIONS[version][t] for t in ("steps", "batches", "tensors")})

    with Trace(run) as trace:
        verdict = diagnose(trace)
        assert trace.problems == []
        page = render_page(reduce_page(trace, verdict))

    assert verdict.first_anomaly is not None
    assert verdict.first_anomaly.step == BROKEN
    assert not any("mistake in firstfault" in n.why for n in verdict.not_evaluable)
    assert f"Step {BROKEN}" in page


@pytest.mark.parametrize("version", VERSIONS)
def test_what_an_earlier_version_has_written_has_its_name_still(version: str) -> None:
    gone = {
        f"{table}.{name}"
        for table, names in VERSIONS[version].items()
        for name in names.split()
        if table not in TABLES or name not in TABLES[table].column_names
    }
    assert gone == set()

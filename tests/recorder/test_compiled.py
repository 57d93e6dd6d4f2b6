"""Compiled training computes the same bits, in the same graphs, and its weights have their names."""

import json
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from firstfault.schemas.layout import parts

SCRIPT = Path(__file__).parent / "scripts" / "compiled.py"


def rows(run: Path, table: str) -> list[dict]:
    return [row for part in parts(run, table) for row in pq.ParquetFile(part.path).read().to_pylist()]


@pytest.mark.slow
@pytest.mark.parametrize(
    "how", ["model", *(pytest.param(how, marks=pytest.mark.suite) for how in ("block", "in place", "function"))]
)
def test_what_is_compiled_stays_bit_identical_without_another_graph_or_break(how: str, tmp_path: Path) -> None:
    run = tmp_path / "run"
    training = [str(SCRIPT), "aot_eager", how]
    plain = subprocess.run([sys.executable, *training], capture_output=True, text=True, check=True).stdout
    command = [sys.executable, "-m", "firstfault", "run", "--out", str(run), *training]
    recorded = subprocess.run(command, capture_output=True, text=True, check=True).stdout

    *plain_bits, plain_counts, plain_graphs = plain.splitlines()
    *bits, counts, graphs = recorded.splitlines()
    assert bits == plain_bits
    assert graphs == plain_graphs
    for kind in ("graph_break", "recompiles", "unimplemented"):
        assert json.loads(counts)[kind] == json.loads(plain_counts)[kind]
    assert [row["step"] for row in rows(run, "steps")] == list(range(16))
    updated = {row["tensor_name"] for row in rows(run, "tensors") if row["kind"] == "update"}
    assert {name.replace("_orig_mod.", "") for name in updated} >= {"0.a.weight", "1.b.bias", "3.weight"}
    assert not any(name.startswith("param_groups") for name in updated)
    assert [row["message"] for row in rows(run, "events") if row["event"] == "recorder-fault"] == []

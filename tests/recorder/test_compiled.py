"""Compiled training computes the same bits, in the same graphs, and its weights have their names."""

import json
import os
import sys
from pathlib import Path

import forked
import pyarrow.parquet as pq
import pytest
from firstfault.schemas.files.layout import parts

SCRIPT = Path(__file__).parent / "scripts" / "compiled.py"
LOSING = Path(__file__).parent / "scripts" / "compiled_fault.py"
BAD = 5
"""Step in which it loses a value."""


def rows(run: Path, table: str) -> list[dict]:
    return [row for part in parts(run, table) for row in pq.ParquetFile(part.path).read().to_pylist()]


@pytest.mark.slow
@pytest.mark.parametrize(
    "how", ["model", *(pytest.param(how, marks=pytest.mark.suite) for how in ("block", "in place", "function"))]
)
def test_what_is_compiled_stays_bit_identical_without_another_graph_or_break(how: str, tmp_path: Path) -> None:
    run = tmp_path / "run"
    training = [str(SCRIPT), "aot_eager", how]
    plain = forked.run([sys.executable, *training], capture_output=True, text=True, check=True).stdout
    command = [sys.executable, "-m", "firstfault", "run", "--out", str(run), *training]
    recorded = forked.run(command, capture_output=True, text=True, check=True).stdout

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


def outputs(arguments: list[str], cache: Path, run: Path | None = None) -> tuple[list[str], dict, list[str]]:
    """Losses and weights, what torch counted, and the rest of what the losing script prints; recorded where a run is given."""
    command = [sys.executable]
    if run is not None:
        command += ["-m", "firstfault", "run", "--out", str(run)]
    environment = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": str(cache)}
    done = forked.run([*command, str(LOSING), *arguments], capture_output=True, text=True, check=True, env=environment)
    *bits, counts, graphs, hits = done.stdout.splitlines()
    counted = {
        k: v for k, v in json.loads(counts).items() if k != "frames"
    }  # the hooks are looked at, and are no graph
    return bits, counted, [graphs, hits]


def lost_values(run: Path) -> list[tuple[str, str | None]]:
    """(tensor, module) of the activations that were not finite in the bad step, in order of capture."""
    tensors = {row["tensor_id"]: row for row in rows(run, "tensors")}
    modules = {row["module_id"]: row["module"] for row in rows(run, "modules")}
    stats = sorted((row for row in rows(run, "tensor_stats") if row["step"] == BAD), key=lambda row: row["seq"])
    return [
        (tensors[s["tensor_id"]]["tensor_name"], modules.get(tensors[s["tensor_id"]]["module_id"]))
        for s in stats
        if (s["nan_count"] or s["inf_count"]) and tensors[s["tensor_id"]]["kind"] == "activation"
    ]


def made_by(run: Path) -> list[tuple[str, str]]:
    """(operator, line) of what compiled code lost first in the bad step."""
    return [
        (row["compiled"], Path(row["source"]).name)
        for row in sorted(rows(run, "operators"), key=lambda row: row["seq"])
        if row["step"] == BAD and row["compiled"] and row["saved"] == "result" and row["nan_count"]
    ]


SCALE = "blocks.1.scale"
DIVIDES = "        return opened / opened.abs().amax(-1, keepdim=True)"
DIVISION = f"compiled_fault.py:{1 + LOSING.read_text().splitlines().index(DIVIDES)}"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("how", "module"),
    [
        ("model", SCALE),
        *(
            pytest.param(how, module, marks=pytest.mark.suite)
            for how, module in {
                "dynamic": SCALE,
                "in place": SCALE,
                "block": "blocks.1._orig_mod.scale",
                "whole": SCALE,
                "breaks": SCALE,
            }.items()
        ),
    ],
)
def test_what_is_lost_inside_compiled_code_is_named_and_nothing_changes(how: str, module: str, tmp_path: Path) -> None:
    run = tmp_path / "run"
    plain = outputs(["aot_eager", how], tmp_path / "cache")
    assert outputs(["aot_eager", how], tmp_path / "cache", run) == plain

    assert lost_values(run)[0] == (f"{module}:output0", module)
    assert made_by(run)[0] == ("aten.div", DIVISION)
    assert [row["message"] for row in rows(run, "events") if row["event"] == "recorder-fault"] == []
    measured = {
        row["tensor_name"]
        for row in rows(run, "tensors")
        if row["kind"] == "activation" and ":output0" in row["tensor_name"]
    }
    assert f"{module}:output0" in measured


@pytest.mark.slow
@pytest.mark.suite
@pytest.mark.parametrize("how", ["model", "reduce-overhead"])
def test_a_graph_out_of_the_cache_is_named_as_a_fresh_one(how: str, tmp_path: Path) -> None:
    fresh, again = tmp_path / "fresh", tmp_path / "again"
    plain = outputs(["inductor", how], tmp_path / "cache")
    first = outputs(["inductor", how], tmp_path / "cache", fresh)
    second = outputs(["inductor", how], tmp_path / "cache", again)

    assert plain[:2] == first[:2] == second[:2]
    assert plain[2][0] == first[2][0] == second[2][0]
    # module hooks make another graph of a whole model, and so another key in the cache
    assert (first[2][1], second[2][1]) == ("cache hits 0", "cache hits 1")
    for run in (fresh, again):
        assert lost_values(run)[0] == (f"{SCALE}:output0", SCALE)
        assert made_by(run)[0] == ("aten.div", DIVISION)
        assert [row["message"] for row in rows(run, "events") if row["event"] == "recorder-fault"] == []


@pytest.mark.slow
@pytest.mark.suite
def test_a_compiled_loss_outside_all_modules_names_its_operator(tmp_path: Path) -> None:
    run = tmp_path / "run"
    plain = outputs(["aot_eager", "loss"], tmp_path / "cache")
    assert outputs(["aot_eager", "loss"], tmp_path / "cache", run) == plain

    logs = [row for row in rows(run, "operators") if row["step"] == BAD and row["compiled"] == "aten.log"]
    assert [(row["saved"], row["module_id"]) for row in logs] == [("self", None)]
    assert logs[0]["zero_count"] > 0


@pytest.mark.slow
@pytest.mark.suite
def test_what_checkpointing_computes_again_is_left_unnamed_rather_than_misnamed(tmp_path: Path) -> None:
    run = tmp_path / "run"
    plain = outputs(["aot_eager", "checkpoint"], tmp_path / "cache")
    assert outputs(["aot_eager", "checkpoint"], tmp_path / "cache", run) == plain

    assert lost_values(run)[0] == (":output0", "")
    (capture,) = [row for row in rows(run, "captured_steps") if row["step"] == BAD]
    assert capture["reproduced"]
    assert not capture["only_compiled"]

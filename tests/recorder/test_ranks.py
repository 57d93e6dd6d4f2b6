"""Several processes of one script: ranks, however they were started."""

import os
import socket
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import forked
import pyarrow.parquet as pq
import pytest
from firstfault.schemas.files.layout import parts

SCRIPT = Path(__file__).parent / "scripts" / "ranks.py"
TORCHRUN = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")


def rows(run: Path, table: str) -> list[dict]:
    return [row for *_, part in parts(run, table) for row in pq.ParquetFile(part).read().to_pylist()]


def run_ranks(folder: Path, *command: object) -> dict[str, str]:
    """What each rank left; the folder is the script's last argument."""
    folder.mkdir()
    done = forked.run([sys.executable, *command, folder], text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    return {path.name: path.read_text("utf-8") for path in folder.glob("rank*.txt")}


def run_forked_ranks(folder: Path, style: str) -> dict[str, str]:
    """The same without a launcher: two forks with the environment that torchrun gives its ranks."""
    folder.mkdir()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        shared = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free.getsockname()[1])}
    ranks = [
        forked.Process(
            [sys.executable, SCRIPT, style, folder], env={**os.environ, **shared, "RANK": rank, "LOCAL_RANK": rank}
        )
        for rank in ("0", "1")
    ]
    assert [rank.wait(120) for rank in ranks] == [0, 0]
    return {path.name: path.read_text("utf-8") for path in folder.glob("rank*.txt")}


@dataclass
class Twins:
    """One training of two ranks, plain and recorded."""

    run: Path
    plain: dict[str, str]
    recorded: dict[str, str]


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Callable[[tuple[str, ...], str], Twins]:
    """Both runs of ``launcher style``, once for all tests: pytest would make a parametrized fixture again for each test."""

    @cache
    def make(launcher: tuple[str, ...], style: str) -> Twins:
        folder = tmp_path_factory.mktemp("twins")
        run, script = folder / "run", [*launcher, SCRIPT, style]
        plain = (
            run_forked_ranks(folder / "plain", style) if launcher == TORCHRUN else run_ranks(folder / "plain", *script)
        )
        recorded = run_ranks(folder / "recorded", "-m", "firstfault", "run", "--quiet", "--out", run, *script)
        return Twins(run, plain, recorded)

    return make


@pytest.fixture
def twins(request, made) -> Twins:
    """``launcher style``, where the launcher is the script itself or torchrun."""
    return made(*request.param)


SHARDED = ((), "sharded")
"""The suite's: in every run of the tests test_sharded.py adds up the shards of FSDP and of tensors."""


@pytest.mark.slow
@pytest.mark.parametrize(
    "twins",
    [
        pytest.param(((), "replicated"), marks=pytest.mark.suite),
        (TORCHRUN, "replicated"),
        pytest.param(SHARDED, marks=pytest.mark.suite),
    ],
    ids=["spawn", "torchrun", "sharded"],
    indirect=True,
)
def test_two_ranks_compute_the_same_bits_and_both_are_recorded(twins):
    steps = rows(twins.run, "steps")

    assert sorted(twins.plain) == ["rank0.txt", "rank1.txt"]
    assert twins.recorded == twins.plain
    for rank in (0, 1):
        losses = [float.fromhex(line) for line in twins.plain[f"rank{rank}.txt"].split()[:12]]
        assert [row["loss"] for row in steps if row["rank"] == rank] == pytest.approx(losses)
    assert {row["world_size"] for row in rows(twins.run, "ranks")} == {2}
    measured = {row["tensor_id"] for row in rows(twins.run, "tensor_stats") if row["rank"] == 1}
    tensors = [row for row in rows(twins.run, "tensors") if row["rank"] == 1 and row["tensor_id"] in measured]
    assert {
        ("0.weight", "parameter"),
        ("0.weight", "gradient"),
        ("0.weight", "update"),
        ("4:output0", "activation"),
    } <= {(row["tensor_name"], row["kind"]) for row in tensors}
    assert [row["message"] for row in rows(twins.run, "events") if row["event"] == "recorder-fault"] == []


@pytest.mark.slow
@pytest.mark.parametrize("twins", [(TORCHRUN, "replicated")], ids=["torchrun"], indirect=True)
def test_every_call_between_ranks_is_recorded_from_before_the_first_step_on(twins):
    calls = rows(twins.run, "collectives")

    for rank in (0, 1):
        mine = [(row["number"], row["step"], row["op"]) for row in calls if row["rank"] == rank]
        assert sorted(set(mine))[:4] == [
            (0, 0, "barrier"),
            (1, 0, "DistributedDataParallel.__init__"),
            (2, 0, "DistributedDataParallel"),
            (3, 1, "DistributedDataParallel"),
        ]


@pytest.mark.slow
@pytest.mark.parametrize("twins", [(TORCHRUN, "replicated")], ids=["torchrun"], indirect=True)
def test_what_distributed_data_parallel_has_timed_of_itself_stands_at_its_step(twins):
    times = rows(twins.run, "ddp_times")

    for rank in (0, 1):
        mine = [row for row in times if row["rank"] == rank]
        assert [(row["step"], row["iteration"]) for row in mine] == [(i, i) for i in range(10)]
        assert all(row["forward_ns"] > 0 and row["backward_ns"] > 0 and row["comm_ns"] > 0 for row in mine)
        assert all(0 <= row["overlap_ns"] <= row["comm_ns"] for row in mine)
        assert {row["backend"] for row in mine} == {"gloo"}


@pytest.mark.suite
@pytest.mark.slow
@pytest.mark.parametrize("twins", [SHARDED], ids=["sharded"], indirect=True)
def test_shards_of_the_ranks_add_up_to_the_whole_weight(twins, monkeypatch):
    monkeypatch.syspath_prepend(str(SCRIPT.parent))
    from ranks import model_of

    tensors = rows(twins.run, "tensors")
    (id_,) = {r["tensor_id"] for r in tensors if (r["tensor_name"], r["kind"]) == ("0.weight", "parameter")}
    first = [r for r in rows(twins.run, "tensor_stats") if r["tensor_id"] == id_ and r["step"] == 0 and r["phase"] == 1]

    weight = model_of()[0].weight
    assert sum(r["numel"] for r in first) == weight.numel()
    assert sum(r["sum_sq"] for r in first) == pytest.approx(weight.square().sum().item(), rel=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("how", ["fork", pytest.param("spawn", marks=pytest.mark.suite)])
def test_what_kills_a_rank_is_named_with_its_step_module_and_shapes(bench, how):
    out = bench.folder.parent / "out"
    out.mkdir()
    recorded = bench.record(str(SCRIPT), "fails", str(out), how)

    exception = recorded.exit.exception
    assert recorded.returncode == 1
    assert exception is not None
    assert (exception.type, exception.rank, exception.step, exception.module) == ("RuntimeError", 1, 7, "0")
    assert [t["shape"] for t in exception.inputs] == [[8, 7]]

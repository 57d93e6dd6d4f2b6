"""Several processes of one script: ranks, however they were started, and children that are none."""

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from firstfault.schemas.files.layout import parts, unrecorded_path

pytestmark = pytest.mark.new_process

SCRIPT = Path(__file__).parent / "scripts" / "ranks.py"
TORCHRUN = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")


def rows(run: Path, table: str) -> list[dict]:
    return [row for *_, part in parts(run, table) for row in pq.ParquetFile(part).read().to_pylist()]


def run_ranks(folder: Path, *command: object) -> dict[str, str]:
    """What each rank left; the folder is the script's last argument."""
    folder.mkdir()
    done = subprocess.run(
        list(map(str, [sys.executable, *command, folder])), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
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
        plain = run_ranks(folder / "plain", *script)
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
def test_what_kills_a_spawned_rank_is_named_with_its_step_module_and_shapes(bench):
    out = bench.folder.parent / "out"
    out.mkdir()
    recorded = bench.record(str(SCRIPT), "fails", str(out))

    exception = recorded.exit.exception
    assert recorded.returncode == 1
    assert exception is not None
    assert (exception.type, exception.rank, exception.step, exception.module) == ("RuntimeError", 1, 7, "0")
    assert [t["shape"] for t in exception.inputs] == [[8, 7]]


CHILDREN = """
    import multiprocessing as mp, os, sys, torch

    def train(fails):
        torch.manual_seed(0)
        model = torch.nn.Linear(4, 2)
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        for i in range(10):
            optimizer.zero_grad()
            model(torch.randn(8, 4)).pow(2).mean().backward()
            optimizer.step()
            if fails and i == 5:
                raise ValueError("five")

    if __name__ == "__main__":
        import torch._dynamo  # by the first optimizer of a process: here once for all that are forked
        how, fails, count = sys.argv[1], sys.argv[2] == "fails", int(sys.argv[3])
        for _ in range(count):
            if how == "os.fork":
                if os.fork() == 0:
                    train(fails)
                    sys.exit(0)
                os.wait()
            else:
                child = mp.get_context(how).Process(target=train, args=(fails,))
                child.start()
                child.join()
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "how", ["fork", *(pytest.param(h, marks=pytest.mark.suite) for h in ("spawn", "forkserver", "os.fork"))]
)
def test_a_child_that_trains_is_recorded_to_its_last_step_and_exception(how, bench):
    bench.write(CHILDREN)

    recorded = bench.record("script.py", how, "fails", "1")

    assert recorded.returncode == 0
    assert [row["step"] for row in rows(bench.run, "steps")] == list(range(6))
    exception = recorded.exit.exception
    assert exception is not None
    assert (recorded.exit.status, exception.type, exception.step) == ("completed", "ValueError", 5)


@pytest.mark.slow
def test_a_process_that_trains_as_a_rank_already_recorded_is_counted_and_said(bench):
    bench.write(CHILDREN)

    recorded = bench.record("script.py", "fork", "well", "3")

    assert [row["step"] for row in rows(bench.run, "steps")] == list(range(10))
    assert recorded.stderr.count(b"[rank-taken]") == 2
    assert len(list(unrecorded_path(bench.run, 0, 0).parent.iterdir())) == 2
    assert recorded.exit.exception is None
    assert "2 further processes trained as a rank that was recorded already" in (recorded.exit.note or "")


@pytest.mark.slow
def test_a_dataset_that_trains_something_in_its_workers_does_not_take_the_rank(bench):
    bench.write("""
        import torch
        from torch.utils.data import DataLoader, Dataset

        class Fitted(Dataset):
            def __len__(self):
                return 8

            def __getitem__(self, i):
                inner = torch.nn.Linear(1, 1)
                inner(torch.ones(1)).backward()
                return inner.weight.grad[0]

        model = torch.nn.Linear(1, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for batch in DataLoader(Fitted(), batch_size=2, num_workers=2, multiprocessing_context="fork"):
            optimizer.zero_grad()
            model(batch).sum().backward()
            optimizer.step()
    """)

    recorded = bench.record("script.py")

    assert recorded.returncode == 0
    assert [row["step"] for row in rows(bench.run, "steps")] == [0, 1, 2, 3]
    assert json.loads((bench.run / "exit.json").read_text("utf-8"))["recorded_ranks"] == 1
    assert recorded.exit.note is None

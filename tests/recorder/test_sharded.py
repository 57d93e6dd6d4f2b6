"""Sharded training on gloo: norms and moments are those of the whole, placements are recorded, and not a bit changes."""

import sys
from dataclasses import dataclass
from pathlib import Path

import forked
import pytest
from firstfault.analyzer import Trace

SCRIPT = Path(__file__).parent / "scripts" / "sharded_training.py"
STEPS = 12
CLIPPED_TO = 0.3

pytestmark = pytest.mark.slow


def leave(folder: Path, *command: object) -> dict[str, list[str]]:
    """What each rank left."""
    folder.mkdir(parents=True)
    done = forked.run(list(map(str, [sys.executable, *command])), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return {path.name: path.read_text("utf-8").split() for path in folder.glob("rank*.txt")}


@pytest.fixture(scope="module")
def true_norms(tmp_path_factory) -> list[float]:
    """Of the same training in one process, as the script itself computed them."""
    folder = tmp_path_factory.mktemp("whole") / "out"
    numbers = leave(folder, SCRIPT, "whole", folder)["rank0.txt"]
    return [float.fromhex(n) for n in numbers[: 2 * STEPS : 2]]


@dataclass
class Twins:
    """One training over ranks, plain and recorded."""

    run: Path
    plain: dict[str, list[str]]
    recorded: dict[str, list[str]]


@pytest.fixture(scope="module")
def twins(request, tmp_path_factory) -> Twins:
    style, *more = request.param.split()
    folder = tmp_path_factory.mktemp(style)
    run, script = folder / "run", [SCRIPT, style]
    plain, recorded = folder / "plain", folder / "recorded"
    left = leave(plain, *script, plain, *more)
    command = ["-m", "firstfault", "run", "--quiet", "--out", run, *script, recorded, *more]
    return Twins(run, left, leave(recorded, *command))


def styles(*names: str) -> pytest.MarkDecorator:
    """Which trainings a test is about; those of most processes are left to the suite."""
    marks = {"fsdp", "tensor"}
    given = [n if n in marks else pytest.param(n, marks=pytest.mark.suite) for n in names]
    return pytest.mark.parametrize("twins", given, indirect=True)


@styles("fsdp", "tensor", "sequence clip", "replicas clip")
def test_the_same_bits_with_and_without_the_recorder(twins):
    assert twins.recorded == twins.plain
    with Trace(twins.run) as trace:
        assert trace.rows("SELECT message FROM events WHERE event = 'recorder-fault'") == []


@styles("fsdp", "tensor")
def test_the_norm_on_every_rank_is_that_of_the_whole_training(twins, true_norms):
    with Trace(twins.run) as trace:
        for rank in (0, 1):
            found = trace.rows("SELECT grad_norm FROM steps WHERE rank = $rank ORDER BY step", {"rank": rank})
            assert [row["grad_norm"] for row in found] == pytest.approx(true_norms, rel=1e-5)
        own = trace.rows("SELECT DISTINCT part FROM norm_parts WHERE step = 0 AND len(ranks) = 2")
        assert len(own) == 2  # each rank recorded another part


@styles("sequence clip", "replicas clip")
def test_the_norm_before_clipping_is_what_torch_clipped_by(twins, true_norms):
    with Trace(twins.run) as trace:
        first = trace.rows("SELECT clip_norm, clip_max_norm FROM steps WHERE step = 0")
        assert [row["clip_norm"] for row in first] == pytest.approx([true_norms[0]] * len(first), rel=1e-5)
        assert {row["clip_max_norm"] for row in first} == {CLIPPED_TO}


@styles("replicas clip")
def test_of_replicated_shards_each_counts_once(twins):
    with Trace(twins.run) as trace:
        found = trace.rows("SELECT rank, grad_norm FROM steps WHERE step = 0 ORDER BY rank")
        assert [row["grad_norm"] for row in found] == pytest.approx([CLIPPED_TO] * 4, rel=1e-4)
        layouts = trace.rows(
            "SELECT rank, shard_ranks, replica_ranks FROM tensors WHERE tensor_name = 'up.weight' AND kind = 'parameter'"
        )
        assert [(row["shard_ranks"], row["replica_ranks"]) for row in layouts] == [
            ([0, 1], [0, 2]),
            ([0, 1], [1, 3]),
            ([2, 3], [0, 2]),
            ([2, 3], [1, 3]),
        ]


@styles("sequence clip")
def test_a_norm_of_summands_is_unknown_and_not_wrong(twins):
    with Trace(twins.run) as trace:
        assert {row["grad_norm"] for row in trace.rows("SELECT grad_norm FROM steps")} == {None}
        partial = trace.rows(
            "SELECT tensor FROM whole_stats WHERE kind = 'gradient' AND partial AND l2 IS NULL AND sum IS NOT NULL"
        )
        assert {row["tensor"] for row in partial} == {"norm.weight", "norm.bias"}


@styles("tensor")
def test_moments_of_shards_add_up_those_of_replicas_stand_once(twins, monkeypatch):
    monkeypatch.syspath_prepend(str(SCRIPT.parent))
    from sharded_training import model_of

    weights = dict(model_of("whole").named_parameters())
    with Trace(twins.run) as trace:
        found = trace.rows("SELECT * FROM whole_stats WHERE kind = 'parameter' AND step = 0 AND phase = 'forward'")
    assert {row["tensor"]: row["placements"] for row in found} == {
        "up.weight": "Shard(0)",
        "up.bias": "Shard(0)",
        "down.weight": "Shard(1)",
        "down.bias": "Replicate",
    }
    for row in found:
        weight = weights[row["tensor"]].detach()
        assert row["complete"]
        assert row["numel"] == weight.numel()
        assert row["l2"] == pytest.approx(weight.norm().item(), rel=1e-5)
        assert (row["min"], row["max"]) == (weight.min().item(), weight.max().item())


@styles("tensor")
def test_the_mesh_of_a_tensor_is_recorded(twins):
    with Trace(twins.run) as trace:
        found = trace.rows("SELECT DISTINCT mesh, mesh_ranks FROM tensors WHERE placements IS NOT NULL")
        plain = trace.rows(
            "SELECT count(*) AS n FROM tensors WHERE tensor_name = 'norm.weight' AND placements IS NOT NULL"
        )
    assert found == [{"mesh": "tp=2", "mesh_ranks": [0, 1]}]
    assert plain == [{"n": 0}]

"""What DistributedDataParallel times of itself stands at its step, in a world of one as well."""

from pathlib import Path

SCRIPT = Path(__file__).parent / "scripts" / "world_of_one.py"


def test_the_first_ten_iterations_are_timed(bench, training_of) -> None:
    recorded = bench.record(SCRIPT, "replicated")
    assert recorded.returncode == 0, recorded.stderr
    times = training_of(bench.run).rows("ddp_times")
    assert [(row["step"], row["iteration"]) for row in times] == [(i, i) for i in range(10)]
    assert all(row["forward_ns"] > 0 and row["backward_ns"] > 0 for row in times)
    assert {row["backend"] for row in times} == {"gloo"}

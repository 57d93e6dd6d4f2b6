"""Calls between ranks are rows, in a world of one as well."""

from pathlib import Path

SCRIPT = Path(__file__).parent / "scripts" / "world_of_one.py"


def test_a_call_is_a_row_with_its_number_size_and_place(bench, training_of) -> None:
    recorded = bench.record(SCRIPT, "plain")
    assert recorded.returncode == 0, recorded.stderr
    calls = training_of(bench.run).rows("collectives")
    assert {(c["op"], c["numel"], c["dtype"], c["reduce_op"]) for c in calls} == {("all_reduce", 5, "float32", "sum")}
    assert sorted({c["number"] for c in calls}) == [0, 1, 2, 3]
    assert sorted({c["step"] for c in calls}) == [0, 3, 6, 9]
    assert all("world_of_one.py" in c["place"] for c in calls)
    assert {c["sum_after"] for c in calls if c["waited_ns"] is not None} == {5.0}

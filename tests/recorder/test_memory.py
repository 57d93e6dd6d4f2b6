"""A long recording does not grow in memory."""

import importlib.util
from pathlib import Path

import pytest

BENCHMARK = Path(__file__).parents[1] / "benchmarks" / "memory_growth.py"


@pytest.mark.suite
@pytest.mark.slow
def test_three_thousand_recorded_steps_leave_the_memory_of_the_process_flat() -> None:
    spec = importlib.util.spec_from_file_location("memory_growth", BENCHMARK)
    assert spec is not None
    assert spec.loader is not None
    benchmark = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(benchmark)

    assert benchmark.growth(3000, recorded=True) < 10

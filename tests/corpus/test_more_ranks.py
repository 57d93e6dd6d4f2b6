"""What holds for two ranks holds for three and four: the right rank is named, and what it costs the others."""

import sys
from pathlib import Path

import forked
import pytest
from firstfault.analyzer import Trace, diagnose
from firstfault.analyzer.verdict import Finding
from suite import TRUTHS

CLAIMS = {
    "one_rank_touches_a_weight": ("ranks-diverged", 13),
    "raw_model_from_some_step_on": ("ddp-bypassed", 12),
    "one_rank_logs_a_mean_alone": ("collective-mismatch", 13),
    "killed_rank": ("rank-died", 12),
    "late_rank": ("straggler", 12),
}
"""Script → name and step of its first cause when the fault is switched on at step 12."""

GUILTY = {"one_rank_touches_a_weight": 1, "killed_rank": 1, "late_rank": 1}
"""Script → the rank that its fault lies in, where it is one."""

SLEPT_MS = 120
"""What late_rank sleeps in each step."""


def first_cause(run: Path, script: str, ranks: int) -> Finding:
    command = [sys.executable, "-m", "firstfault", "run", "--quiet", "--out", run, TRUTHS[script][0], "12", "0", ranks]
    forked.run(list(map(str, command)), capture_output=True, check=False)
    with Trace(run) as trace:
        assert trace.sql("SELECT count(DISTINCT rank) AS n FROM steps").item() == ranks
        return diagnose(trace).causes[0]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("script", "ranks"),
    [
        pytest.param(script, ranks, marks=[] if (script, ranks) == ("killed_rank", 3) else pytest.mark.suite)
        for script in CLAIMS
        for ranks in (3, 4)
    ],
)
def test_the_fault_of_one_rank_among_several_is_the_first_cause(script: str, ranks: int, tmp_path: Path) -> None:
    found = first_cause(tmp_path / "run", script, ranks)

    assert (found.name, found.step) == CLAIMS[script]
    if script in GUILTY:
        assert found.rank == GUILTY[script]
    if script == "late_rank":
        assert found.evidence[0]["late_ms"] == pytest.approx(SLEPT_MS, rel=0.2)

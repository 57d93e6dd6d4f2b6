"""A cause that nothing has evidence for brings its candidates, each with what speaks for it and against it."""

from typing import Any

from firstfault.analyzer import Trace
from firstfault.analyzer.diagnosis.diagnose import diagnose


def lost_at(step: int, **columns: Any) -> list[dict[str, Any]]:
    nan = float("nan")
    return [
        {"step": s, "loss": nan if s >= step else 1.0, "grad_norm": nan if s >= step else 1.0, **columns}
        for s in range(step + 5)
    ]


def groups(*, ratio: float, until: int) -> list[dict[str, Any]]:
    return [{"step": s, "update_norm": ratio if s > until - 3 else 1e-3, "weight_norm": 1.0} for s in range(until + 5)]


def test_a_large_update_just_before_speaks_for_the_learning_rate(write_run: Any) -> None:
    with Trace(write_run(steps=lost_at(20), param_groups=groups(ratio=0.05, until=20))) as trace:
        [cause] = [c for c in diagnose(trace).causes if c.name == "unexplained-nonfinite"]
    first = cause.candidates[0]
    assert first.name == "lr-too-high"
    assert "0.05" in first.for_
    assert first.against == ""


def test_an_update_like_all_others_speaks_against_it(write_run: Any) -> None:
    with Trace(write_run(steps=lost_at(20), param_groups=groups(ratio=1e-3, until=20))) as trace:
        [cause] = [c for c in diagnose(trace).causes if c.name == "unexplained-nonfinite"]
    by_name = {c.name: c for c in cause.candidates}
    assert len(by_name) == 3
    assert all(c.tell_apart for c in by_name.values())
    assert "lr-too-high" not in by_name or "as small as ever" in by_name["lr-too-high"].against


def test_a_cause_with_evidence_has_no_candidates(write_run: Any) -> None:
    collapse = {"op": "Div", "saved": "other", "trigger": "collapse", "least_before": 0.5, "looks": 20}
    operators = [{"step": 20, "seq": 1, "graph_seq": 1, "min": 1e-9, "max": 1.0, **collapse}]
    with Trace(write_run(steps=lost_at(20), operators=operators)) as trace:
        causes = diagnose(trace).causes
    assert [c.name for c in causes if c.severity != "warning"] == ["tiny-denominator"]
    assert causes[0].candidates == []

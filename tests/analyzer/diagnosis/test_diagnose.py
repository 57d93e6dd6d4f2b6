"""The verdict: conclusions, causes and symptoms, determinism, valid JSON."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from firstfault.analyzer import Trace, Verdict, diagnose
from firstfault.analyzer.diagnosis.diagnose import plain
from firstfault.analyzer.rules import precision as confidence
from firstfault.analyzer.rules.precision import precision_of
from firstfault.analyzer.rules.rule import find_rule, load_rules
from firstfault.analyzer.rules.thresholds import RuleSet
from firstfault.schemas import Phase


def verdict_of(run: Path, threads: int | None = None) -> Verdict:
    with Trace(run, threads=threads) as trace:
        return diagnose(trace)


def healthy_steps(n: int) -> list[dict[str, Any]]:
    return [{"step": i, "loss": 2.0 - 0.01 * i + 0.02 * (i % 3), "grad_norm": 1 + 0.1 * (i % 5)} for i in range(n)]


def nan_from(n: int, first: int) -> list[dict[str, Any]]:
    bad = float("nan")
    return [{"step": i, "loss": 1.0 if i < first else bad, "grad_norm": 1.0 if i < first else bad} for i in range(n)]


def faulty(write_run: Any) -> Path:
    return write_run(
        modules=[{"module_id": 0, "module": "<b>'层\n", "class_name": "Net", "call_order": 0}],
        tensors=[{"tensor_id": 1, "tensor_name": '{x} "y"', "kind": "activation", "module_id": 0}],
        tensor_stats=[{"step": 7, "seq": 3, "tensor_id": 1, "nan_count": 2, "min": None, "max": None}],
        steps=nan_from(12, 7),
        exit={
            "status": "exception",
            "exit_code": 1,
            "exception": {"type": "ValueError", "message": "loss is nan", "step": 11},
        },
    )


def test_a_healthy_run_is_healthy(write_run: Any) -> None:
    verdict = verdict_of(write_run(steps=healthy_steps(40)))
    assert (verdict.verdict, verdict.causes, verdict.first_anomaly) == ("healthy", [], None)
    assert (verdict.run.steps_recorded, verdict.run.last_durable_step) == (40, 39)


@pytest.mark.parametrize("n", [1, 2, 5, 12])
def test_a_short_healthy_run_is_never_anomalous_and_says_what_it_could_not_judge(write_run: Any, n: int) -> None:
    verdict = verdict_of(write_run(steps=healthy_steps(n)))
    assert verdict.verdict in {"healthy", "inconclusive"}
    assert any("needs" in s.why for s in verdict.not_evaluable)


def test_a_run_without_a_step_is_inconclusive_and_says_why(write_run: Any) -> None:
    verdict = verdict_of(write_run())
    assert verdict.verdict == "inconclusive"
    assert verdict.run.last_durable_step is None
    assert "no training step was completed: nothing to judge" in [s.why for s in verdict.not_evaluable]


def test_a_run_without_an_exit_is_inconclusive_while_nothing_is_wrong(write_run: Any) -> None:
    verdict = verdict_of(write_run(exit=None, steps=healthy_steps(40)))
    assert (verdict.run.status, verdict.verdict) == ("host-lost", "inconclusive")


def test_a_fault_is_found_although_the_run_has_no_exit(write_run: Any) -> None:
    assert verdict_of(write_run(exit=None, steps=nan_from(12, 7))).verdict == "anomalous"


def test_an_interrupt_by_the_user_is_no_anomaly(write_run: Any) -> None:
    run = write_run(steps=healthy_steps(40), exit={"status": "signal", "signal": 2, "signal_name": "SIGINT"})
    assert verdict_of(run).verdict == "healthy"


def test_a_rule_of_ours_that_fails_cannot_judge_and_takes_no_other_with_it(write_run: Any) -> None:
    rule = find_rule("DA003")
    assert rule is not None
    numbers = " + ".join(f"${name}" for name in rule.params)
    header = msgspec.structs.replace(rule.header, seeks=())
    broken = replace(rule, header=header, select=f"SELECT (SELECT unnest([1, 2])) AS step WHERE {numbers} > 0")
    rules = [broken if r.header.code == "DA003" else r for r in load_rules()]
    batches = [{"step": s, "seq": 1, "tensor_id": 1, "field": "0", "role": "input"} for s in range(12)]
    stats = [{"step": s, "seq": 1, "tensor_id": 1, "min": 0.0} for s in range(12)]
    run = write_run(steps=nan_from(12, 7), batches=batches, tensor_stats=stats)
    with Trace(run) as trace:
        verdict = diagnose(trace, RuleSet(tuple(rules)))
    assert verdict.verdict == "anomalous"
    [why] = [n.why for n in verdict.not_evaluable if n.code == "DA003"]
    assert "DA003_constant_input.sql" in why
    assert "More than one row" in why


def test_one_fault_is_one_cause_with_its_symptoms(write_run: Any) -> None:
    verdict = verdict_of(faulty(write_run))
    assert [c.name for c in verdict.causes] == ["unexplained-nonfinite"]
    assert [(s.name, s.explained_by) for s in verdict.symptoms] == [
        ("nonfinite-tensor", "unexplained-nonfinite"),
        ("python-exception", "unexplained-nonfinite"),
    ]
    first = verdict.first_anomaly
    assert first is not None
    assert (first.step, first.step_lower, first.phase, first.module) == (7, 7, "forward", "<b>'层\n")
    assert first.tensor == '{x} "y"'


@pytest.mark.parametrize(("units", "conclusion"), [(4, "healthy"), (64, "anomalous")])
def test_advice_stays_advice_where_the_same_place_is_said_to_get_no_gradient(
    write_run: Any, units: int, conclusion: str
) -> None:
    modules = [("", None, 0), ("0", 0, 1), ("1", 0, 2), ("2", 0, 3)]
    kinds = [("0.weight", "parameter", 1), ("0.weight", "gradient", 1), ("1:output0", "activation", 2)]
    rows = [{"step": s, "phase": int(Phase.FORWARD), "numel": 100, "min": 0.0} for s in range(30)]
    dead = [
        row | {"seq": 2, "tensor_id": 3, "zero_count": 100 - 50 * (row["step"] == 10), "requires_grad": True}
        for row in rows
    ]
    # it has had a gradient in one step, and none since
    backward = {"phase": int(Phase.BACKWARD), "tensor_id": 2, "max": 0.0}
    lost = [row | backward | {"sum_sq": float(row["step"] == 10)} for row in rows]
    verdict = verdict_of(
        write_run(
            steps=healthy_steps(30),
            modules=[
                {
                    "module_id": i,
                    "module": n,
                    "class_name": "ReLU" if n == "1" else "Linear",
                    "parent_id": p,
                    "call_order": o,
                }
                for i, (n, p, o) in enumerate(modules)
            ],
            tensors=[
                {"tensor_id": i, "tensor_name": n, "kind": k, "module_id": m, "shape": [units, 9], "optimizer_id": 0}
                for i, (n, k, m) in enumerate(kinds, 1)
            ],
            tensor_stats=dead + lost,
        )
    )
    assert (verdict.verdict, [c.name for c in verdict.causes]) == (conclusion, ["dead-relu"])
    assert [s.name for s in verdict.symptoms] == ["frozen-by-zero-gradient"]


def test_advice_that_accounts_for_the_end_of_the_run_is_no_advice(write_run: Any) -> None:
    about = {"kind": "list", "holder": "seen", "element": "tensor", "with_graph": False, "shape": [512, 512]}
    owners = [
        {"step": s, "length": s - 3, "rate": 1.0, "bytes_each": 2**20, "since_step": 4, **about} for s in (20, 24, 32)
    ]
    steps = [
        row | {"outputs_alive": 0, "anonymous_bytes": 10**8 + 2**20 * max(row["step"] - 3, 0)}
        for row in healthy_steps(40)
    ]
    refused = {"type": "RuntimeError", "message": "DefaultCPUAllocator: can't allocate memory", "step": 40}

    advised = verdict_of(write_run(steps=steps, memory_owners=owners))
    ended = verdict_of(
        write_run(steps=steps, memory_owners=owners, exit={"status": "exception", "exit_code": 1, "exception": refused})
    )

    assert (advised.verdict, [(f.name, f.severity) for f in advised.causes]) == (
        "healthy",
        [("tensor-list-growth", "warning")],
    )
    assert ended.verdict == "anomalous"
    assert [(f.name, f.severity) for f in ended.causes] == [("tensor-list-growth", "error")]
    assert "oom-host" in {f.name for f in ended.symptoms}


def test_names_with_braces_are_quoted_not_filled_in(write_run: Any) -> None:
    assert '{x} "y" at step 7' in verdict_of(faulty(write_run)).causes[0].message


def test_the_step_is_bounded_where_steps_between_were_not_recorded(write_run: Any) -> None:
    nan = float("nan")
    rows = [{"step": i, "loss": 1.0 if i < 20 else nan, "grad_norm": 1.0 if i < 20 else nan} for i in range(0, 40, 10)]
    first = verdict_of(write_run(steps=rows)).first_anomaly
    assert first is not None
    assert (first.step_lower, first.step, first.step_upper) == (11, 20, 20)


def test_the_verdict_is_the_same_to_the_byte_with_one_thread_and_with_two(write_run: Any) -> None:
    run = faulty(write_run)
    one, two = (msgspec.json.encode(verdict_of(run, threads)) for threads in (1, 2))
    assert one == two


def test_the_verdict_is_valid_json_whatever_was_not_finite(write_run: Any) -> None:
    def refuse(name: str) -> None:
        raise AssertionError(f"{name} is not JSON")

    text = msgspec.json.encode(verdict_of(faulty(write_run)))
    verdict = json.loads(text, parse_constant=refuse)
    assert list(verdict) == [
        "schema_version", "run", "verdict", "first_anomaly", "causes", "symptoms", "not_evaluable",
        "changes",
    ]  # fmt: skip
    assert verdict["causes"][0]["evidence"][0]["nan_count"] == 2


def test_the_sql_of_a_finding_can_be_run_again(write_run: Any) -> None:
    run = faulty(write_run)
    with Trace(run) as trace:
        verdict = diagnose(trace)
        for finding in verdict.causes + verdict.symptoms:
            assert trace.sql(finding.sql).height >= 1
    with Trace(run) as trace:  # as views, before anything was computed ahead
        assert trace.sql(verdict.causes[0].sql).height >= 1


def test_a_torn_part_is_said_in_what_could_not_be_judged(write_run: Any, folder: Any) -> None:
    run = write_run(steps=healthy_steps(40))
    torn = folder.write_part(run, "steps", folder.filled("steps", healthy_steps(5)), index=1)
    torn.write_bytes(b"PAR1 torn")
    why = [s.why for s in verdict_of(run).not_evaluable if s.name == "recording-incomplete"]
    assert len(why) == 1
    assert str(torn) in why[0]


def test_numbers_that_json_cannot_hold_become_their_names() -> None:
    values = {"a": float("nan"), "b": [float("inf"), 1 / 3], "c": None, 4: True}
    assert plain(values) == {"a": "nan", "b": ["inf", 0.333333], "c": None, "4": True}


def test_confidence_is_the_precision_in_blind_trainings_and_null_where_there_were_none(monkeypatch) -> None:
    counts = {"sqrt-at-zero": confidence._Counts(right=3, wrong=1)}
    monkeypatch.setattr(confidence, "_blind", lambda: counts)
    assert precision_of("sqrt-at-zero") == (0.75, 4)
    assert precision_of("no such name") == (None, 0)


def test_the_counts_of_blind_rounds_are_of_names_that_exist() -> None:
    assert set(confidence._blind()) <= {rule.header.name for rule in load_rules()}

"""A recording that measured every twentieth step still gives true bounds, and raises no alarm on healthy runs."""

import sys
from pathlib import Path
from typing import Any

import forked
import pytest
from firstfault.analyzer import Trace, Verdict, diagnose
from suite import ENVIRONMENT, ODD, TRUTHS, any_of, step_of

FAULTS = [
    "nan_in_images_sgd",
    "outlier_regression",
    "detached",
    "dead_relu_after_big_step",
    "zero_sample_in_rms_norm",
    "empty_sentence",
    "head_replaced_after_optimizer",
    "log_of_probability",
    "lr_jump",
    "zero_grad_lost_later",
]
HEALTHY = ["overfits_to_zero", "mixture_with_idle_experts", "unfreezes_later", "heavy_tailed_mse", "frozen_backbone"]


def first_of_twelve(scripts: list[str]) -> list[Any]:
    """The others run with the suite."""
    return [pytest.param(s, marks=pytest.mark.suite if i % 12 else ()) for i, s in enumerate(scripts)]


def record(run: Path, *arguments: object) -> Verdict:
    command = [sys.executable, "-m", "firstfault", "run", "--quiet", "--every", "20", "--out", run]
    forked.run([*command, *map(str, arguments)], capture_output=True, check=False, env=ENVIRONMENT)
    with Trace(run) as trace:
        return diagnose(trace)


@pytest.mark.slow
@pytest.mark.parametrize("onset", [14, pytest.param(17, marks=pytest.mark.suite)])
@pytest.mark.parametrize("script", [pytest.param(script, marks=pytest.mark.suite) for script in FAULTS])
def test_the_truth_lies_within_the_bounds_of_a_sampled_recording(script: str, onset: int, tmp_path: Path) -> None:
    file, truth = TRUTHS[script]

    verdict = record(tmp_path / "run", file, onset)

    assert verdict.causes[0].name in any_of(truth["name"])
    first = verdict.first_anomaly
    assert first is not None
    assert first.step_lower <= step_of(truth, onset) <= first.step_upper
    assert any("recording was sampled" in n.why for n in verdict.not_evaluable)


@pytest.mark.slow
@pytest.mark.parametrize("script", first_of_twelve(HEALTHY))
def test_a_healthy_run_is_healthy_in_a_sampled_recording(script: str, tmp_path: Path) -> None:
    assert record(tmp_path / "run", ODD[script]).verdict == "healthy"


def test_bounds_reach_back_to_the_last_step_that_measured_what_the_rule_looks_at(tmp_path: Path) -> None:
    file, _ = TRUTHS["dead_relu_after_big_step"]

    first = record(tmp_path / "run", file, 14).first_anomaly

    assert first is not None
    assert (first.step_lower, first.step_upper) == (3, 15)  # activations of steps 0 to 2 and then of 15 were measured

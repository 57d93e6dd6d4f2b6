"""Rates that a script lowers by itself."""

import pytest
from firstfault.analyzer import Trace
from firstfault.reports.reruns.preflight_rates import decays_by_hand


@pytest.mark.parametrize(
    ("rate", "steps", "doubted"),
    [
        (lambda s: 0.01 * 0.9**s, 1000, True),
        (lambda s: 0.01 * 0.999**s, 10_000, False),  # a thousandth after 6905 steps
        (lambda s: 0.01 * 0.999**s, 20_000, True),
        (lambda s: 0.01 / (1 + s), 100_000, False),
        (lambda s: 0.01, 1000, False),
        (lambda s: 0.01 * min(1.0, (s + 1) / 20), 1000, False),
        (lambda s: 0.01 * 0.9**s, None, False),
    ],
)
def test_a_rate_that_is_nothing_long_before_the_end_is_doubted(run_folder, rate, steps, doubted):
    run = run_folder()
    for step in range(30):
        run.step(step, lr=rate(step))
    with Trace(run.write()) as trace:
        assert [outcome for _, _, outcome, _ in decays_by_hand(trace, steps)] == ["doubtful"] * doubted

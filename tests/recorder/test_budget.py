"""The recorder keeps to its share of the step time, and what it left out is in the recording."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
from firstfault.analyzer import Trace, diagnose
from firstfault.recorder import Recorder
from firstfault.recorder.base.options import Options
from firstfault.recorder.session.budget import FIRST_STEPS, LONGEST, Budget
from firstfault.recorder.session.processor_share import ProcessorShare

pytestmark = pytest.mark.usefixtures("objects_of_the_test_alone")

MS = 1_000_000
COSTS = {"activations": 6 * MS, "gradients": 3 * MS, "updates": MS // 10}


def budget_alone(options: Options) -> Budget:
    """On a machine with nothing else to do: the times of these tests are invented."""
    return Budget(options, processor=ProcessorShare(Path("/no such file")))


def simulate(budget: Budget, steps: int, plain_ns: int, costs: dict, rest_ns: int = MS // 10) -> list[float]:
    """Run a budget over steps of known cost; returns the recorder's share of each."""
    shares = []
    for _ in range(steps):
        took = rest_ns
        for kind, ns in costs.items():
            if budget.due(kind):
                budget.spent(kind, ns, 10)
                took += ns
        budget.row_ended(plain_ns + took, took)
        budget.step_ended(budget.step)
        shares.append(took / plain_ns)
    return shares


def test_everything_is_measured_until_the_grace_is_used_up():
    budget = budget_alone(Options(budget=0.01, grace_s=1.0))
    shares = simulate(budget, 100, 100 * MS, COSTS)
    assert shares == pytest.approx([0.092] * 100)
    assert set(budget.intervals.values()) == {1}


def schedstat(path: Path, ran_ns: int, waited_ns: int) -> Path:
    path.write_text(f"{ran_ns} {waited_ns} 7\n")
    return path


def test_waiting_for_a_processor_does_not_use_up_the_grace(tmp_path):
    counts = schedstat(tmp_path / "schedstat", 5 * MS, 5 * MS)
    budget = Budget(Options(budget=0.01, grace_s=1.0), processor=ProcessorShare(counts))
    schedstat(counts, 5 * MS + 1000 * MS, 5 * MS + 9000 * MS)  # a tenth of the time in which it could have run
    assert simulate(budget, 200, 100 * MS, COSTS) == pytest.approx([0.092] * 200)
    assert budget.used_ns > 1.8e9
    shares = simulate(budget, 2000, 100 * MS, COSTS)
    assert sum(shares[-500:]) / 500 < 0.011  # once it is used up, a busy machine is recorded as any other


def test_without_counts_of_the_kernel_all_time_counts(tmp_path):
    assert ProcessorShare(tmp_path / "none").share() == 1.0
    assert ProcessorShare(schedstat(tmp_path / "odd", 1, 2)).share() == 1.0  # nothing has run since
    assert ProcessorShare().share() <= 1.0


def test_a_thread_does_not_answer_for_another(tmp_path):
    counts = schedstat(tmp_path / "schedstat", 5 * MS, 5 * MS)
    processor = ProcessorShare(counts)
    schedstat(counts, 6 * MS, 14 * MS)
    assert processor.share() == pytest.approx(0.1)
    with ThreadPoolExecutor(1) as other:
        assert other.submit(processor.share).result() == 1.0


def test_a_grace_that_is_over_does_not_come_back_when_the_training_has_run_longer():
    budget = budget_alone(Options(budget=0.03, grace_s=2.0))
    simulate(
        budget, 400, MS, {"activations": MS}
    )  # more than a fifth: measuring in full ends before two seconds are used up
    used = budget.used_ns
    shares = simulate(budget, 4000, MS, {"activations": MS})

    assert budget.used_ns < 1.9e9  # nothing but the thinning has ended it
    assert used > 0.4e9
    assert sum(shares) / len(shares) < 0.15


def test_what_watched_steps_last_longer_than_unwatched_ones_is_the_recorders():
    def watched(budget: Budget, step: int) -> None:
        budget.row_ended(3 * MS + MS // 2, MS)  # by its own clock a millisecond; without it the step takes one
        budget.step_ended(step)

    known, unknown = budget_alone(Options(budget=0.03)), budget_alone(Options(budget=0.03))
    known.went_unwatched(100, 100, 16, 100 * MS)
    before = known.used_ns
    for budget in (known, unknown):
        watched(budget, 100)

    assert known.used_ns - before == 2 * MS  # what it lasts longer counts, but no more than its own clock says
    assert unknown.used_ns == MS


def test_where_no_step_goes_unwatched_steps_with_few_measurements_show_what_the_others_spoil():
    """Hooks and caches: what a step lasts longer beside the recorder's own clock is part of the price of what was measured."""
    seen, unseen = (budget_alone(Options(budget=0.045, grace_s=0.0)) for _ in range(2))  # clocks inside may see 0.03
    took = {"seen": 0.0, "unseen": 0.0}
    for name, budget in (("seen", seen), ("unseen", unseen)):
        for step in range(4000):
            own = MS // 10
            for kind, ns in COSTS.items():
                if budget.due(kind):
                    budget.spent(kind, ns, 10)
                    own += ns
            spoilt = (
                own - MS // 10 if name == "seen" else 0
            )  # hooks take as much again as what the clock within them sees
            budget.row_ended(100 * MS + own + spoilt, own)
            budget.step_ended(budget.step)
            took[name] += (own + spoilt) if step >= 1000 else 0
    assert took["unseen"] / 3000 <= 0.03 * 100 * MS
    assert took["seen"] / 3000 <= 0.03 * 100 * MS
    assert seen.intervals["activations"] > unseen.intervals["activations"]


def test_clocks_inside_may_see_two_thirds_of_the_budget():
    """Whole processes pay half as much again."""
    budget = budget_alone(Options(budget=0.03, grace_s=0.0))
    shares = simulate(budget, 4096, 100 * MS, COSTS)[1024:]
    assert 0.01 < sum(shares) / len(shares) <= 0.02


def test_after_the_grace_the_mean_share_stays_within_the_budget():
    budget = budget_alone(Options(budget=0.03, grace_s=0.1))
    simulate(budget, 100, 100 * MS, COSTS)
    shares = simulate(budget, 2048, 100 * MS, COSTS)
    assert 0.01 < sum(shares) / len(shares) <= 0.03


def test_what_full_detail_takes_is_saved_afterwards():
    budget = budget_alone(Options(budget=0.03, grace_s=0.0))
    simulate(budget, 200, 100 * MS, COSTS)
    shares = []
    for i in range(60):
        budget.full_detail(6, f"reason {i}")
        shares += simulate(budget, 32, 100 * MS, COSTS)
    assert max(shares[32:]) > 0.09  # it is granted all the same
    assert 0.01 < sum(shares) / len(shares) <= 0.031


def test_where_the_rarest_kind_is_measured_all_are():
    budget = budget_alone(Options(budget=0.02, grace_s=0.0))
    simulate(budget, 100, 100 * MS, COSTS)
    assert len({budget.intervals[k] for k in COSTS}) > 1
    longest = max(budget.intervals[k] for k in COSTS)
    budget.step = 7 * longest
    assert all(budget.due(kind) for kind in COSTS)
    assert budget.detail() == ""


def test_intervals_shrink_again_when_steps_grow_longer_and_then_stay():
    budget = budget_alone(Options(budget=0.03, grace_s=0.0))
    simulate(budget, 200, 20 * MS, COSTS)
    thinned = budget.intervals["activations"]
    simulate(budget, 2000, 2000 * MS, COSTS)
    assert thinned > 8
    assert budget.intervals["activations"] == 1
    before = dict(budget.intervals)
    simulate(budget, 200, 1900 * MS, COSTS)
    assert budget.intervals == before


def test_noise_between_the_two_thresholds_changes_nothing():
    budget = budget_alone(Options(budget=0.03, grace_s=0.0))
    simulate(budget, 200, 100 * MS, COSTS)
    before = dict(budget.intervals)
    for i in range(60):
        simulate(budget, 8, (97 + i % 7) * MS, COSTS)
    changed = [k for k in COSTS if budget.intervals[k] != before[k]]
    assert len(changed) <= 1  # one that stood on the edge may have moved once


def test_a_kind_is_never_given_up_however_small_the_budget():
    budget = budget_alone(Options(budget=0.0001, grace_s=0.0))
    simulate(budget, 400, 10 * MS, COSTS, rest_ns=MS)
    assert {budget.intervals[k] for k in COSTS} == {LONGEST}


def test_the_kinds_keep_a_quarter_of_the_budget_where_everything_else_takes_it_all():
    budget = budget_alone(Options(budget=0.04, grace_s=0.0))
    simulate(budget, 400, 100 * MS, COSTS, rest_ns=20 * MS)
    assert 0.005 < sum(ns / budget.intervals[k] for k, ns in COSTS.items()) / (100 * MS) <= 0.01


@pytest.mark.parametrize(
    ("backwards", "all_read", "every", "taken"),
    [(1, True, 1, 69_000), (2, True, 1, 129_000), (20, False, 1, 240_000), (100, False, 2, 484_500)],
)
def test_losses_of_many_microbatches_are_read_as_far_as_the_budget_allows(backwards, all_read, every, taken):
    budget = budget_alone(Options(budget=0.045, grace_s=0.0))  # clocks inside may see 0.03
    budget.steps_can_go_unwatched, budget.backwards = True, backwards
    plain = 40 * MS  # of which losses may take 0.48
    simulate(budget, 200, plain, COSTS, rest_ns=MS * backwards)
    assert budget.every_loss is all_read
    before, each = budget.used_ns, budget.unwatched_steps(budget.step + 1)[1]
    budget.went_unwatched(budget.step, 10, each, 10 * plain)
    assert each == every
    assert budget.used_ns - before == 10 * taken


def test_very_many_evaluation_forwards_take_no_more_than_a_fifth_while_everything_is_measured():
    budget = budget_alone(Options(budget=0.03, grace_s=10.0))
    assert all(budget.evaluation_due(count, 10 * MS, 9 * MS) for count in range(1, 65))
    assert budget.evaluation_due(1001, 10 * MS, MS)
    assert not budget.evaluation_due(1001, 10 * MS, 3 * MS)
    assert budget_alone(Options(budget=None)).evaluation_due(1001, 10 * MS, 9 * MS)


def test_the_option_every_is_the_shortest_interval_even_without_a_budget():
    budget = budget_alone(Options(budget=None, every=20, grace_s=0.0))
    measured = []
    for step in range(100):
        if budget.due("gradients"):
            measured.append(step)
        budget.step_ended(step)
    assert measured == [*range(FIRST_STEPS), 20, 40, 60, 80]


def test_full_detail_is_granted_for_some_steps_and_not_for_ever():
    budget = budget_alone(Options(every=20))
    full = 0
    for step in range(1000):
        budget.full_detail(2, "nonfinite-loss")
        full += budget.due("gradients")
        budget.step_ended(step)
    assert 50 <= full < 100


def test_detail_names_what_was_refused_in_the_step_and_nothing_of_the_step_before():
    budget = budget_alone(Options(every=20))
    budget.step_ended(FIRST_STEPS)
    assert not budget.due("gradients")
    assert not budget.due("activations")
    assert budget.full_detail(1, "capture")
    assert budget.due("gradients")
    assert budget.detail() == "activations gradients"
    budget.step_ended(FIRST_STEPS + 1)
    assert budget.detail() == ""


def train(steps: int) -> None:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    for _ in range(steps):
        optimizer.zero_grad()
        model(torch.randn(4, 8)).square().mean().backward()
        optimizer.step()


def test_a_sampled_recording_says_in_every_step_what_is_not_in_it(tmp_path):
    with Recorder(tmp_path / "run", every=5, budget="off"):
        train(23)

    with Trace(tmp_path / "run") as trace:
        steps = trace.sql("SELECT step, detail, loss, grad_norm FROM steps ORDER BY step").to_dicts()
        seen = dict(
            trace.sql(
                "SELECT step, list(DISTINCT kind ORDER BY kind) AS kinds FROM stats WHERE phase <> 'data' GROUP BY step"
            ).iter_rows()
        )
        stats = trace.sql("SELECT part, interval, reason, sum(ns) AS ns FROM recorder_stats GROUP BY ALL").to_dicts()
    full = [s["step"] for s in steps if s["detail"] == ""]
    assert full == [0, 1, 2, 5, 10, 15, 20]
    for s in steps:
        assert s["loss"] > 0
        assert s["grad_norm"] > 0  # scalars at every step
        everything = {"activation", "activation_gradient", "gradient", "parameter", "update", "loss"}
        assert set(seen[s["step"]]) - {"output", "target"} == (everything if s["step"] in full else {"loss"})
    parts = {s["part"]: s for s in stats}
    assert (parts["gradients"]["interval"], parts["gradients"]["reason"]) == (5, "option")
    assert all(s["ns"] > 0 for s in stats)


def test_the_cheap_gradient_norm_is_that_of_the_rows(tmp_path):
    norms = []
    for every in (1, 50):
        with Recorder(tmp_path / f"run{every}", every=every, budget="off"):
            train(12)
        with Trace(tmp_path / f"run{every}") as trace:
            norms.append(trace.sql("SELECT grad_norm FROM steps ORDER BY step")["grad_norm"].to_list())
    assert norms[1] == pytest.approx(norms[0], rel=1e-5)


def test_a_budget_that_is_used_up_thins_the_recording(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with Recorder(tmp_path / "run", budget="0.5%", grace="1ms"):
        train(60)
    with Trace(tmp_path / "run") as trace:
        thinned = trace.sql(
            "SELECT count(*) + (SELECT coalesce(sum(steps), 0) FROM unwatched_steps) AS n FROM steps WHERE detail <> ''"
        ).item()
        reasons = set(trace.sql("SELECT reason FROM recorder_stats WHERE part = 'gradients'")["reason"].to_list())
    assert thinned > 30
    assert reasons == {"full", "budget"}


def test_a_new_optimizer_over_trained_weights_is_recognised_however_little_is_measured(tmp_path):
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
    with Recorder(tmp_path / "run", every=64, budget="off"):
        for _ in range(2):
            optimizer = torch.optim.Adam(model.parameters(), 0.001)
            for _ in range(30):
                optimizer.zero_grad()
                model(torch.randn(4, 8)).square().mean().backward()
                optimizer.step()
    with Trace(tmp_path / "run") as trace:
        moved = trace.sql("SELECT DISTINCT step FROM stats WHERE kind = 'update' ORDER BY step")["step"].to_list()
        causes = {(c.name, c.step) for c in diagnose(trace).causes}
    assert moved == [0, 1, 2, 30]
    assert ("optimizer-state-lost", 30) in causes


def test_excluded_tensors_have_no_rows_and_still_count_in_the_norm(tmp_path):
    norms = []
    for i, exclude in enumerate([[], ["0", "kind:activation_gradient"]]):
        with Recorder(tmp_path / f"run{i}", exclude=exclude):
            train(4)
        with Trace(tmp_path / f"run{i}") as trace:
            norms.append(trace.sql("SELECT grad_norm FROM steps ORDER BY step")["grad_norm"].to_list())
            names = set(trace.sql("SELECT DISTINCT tensor, kind FROM stats").rows())
    assert norms[0] == norms[1]
    assert not [(name, kind) for name, kind in names if name.startswith(("0.", "0:")) or kind == "activation_gradient"]
    assert {("2.weight", "gradient"), ("2:output0", "activation"), ("loss", "loss")} <= names

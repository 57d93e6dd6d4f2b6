"""Signs in updates, activations, running statistics, random numbers, digits, skipped steps and sums of ranks."""

import pytest
from firstfault.analyzer import Trace
from firstfault.reports.reruns.prove_signs import is_gone, sign_of

USUAL = [1.0, 1.1, 0.9, 1.0, 1.05, 0.95, 1.0, 1.02]


def shown(run, step, kind):
    with Trace(run) as trace:
        return sign_of(trace, step, kind)


def gone(sign, run, last=11):
    with Trace(run) as trace:
        return is_gone(sign, trace, last=last)[0]


def stats(run, kind, name, values, **columns):
    """One tensor whose only element has a value at each step."""
    for step, value in enumerate(values):
        run.step(step, loss=1.0)
        low, high = value if isinstance(value, tuple) else (value, value)
        run.add(
            "tensor_stats", step=step, seq=1, tensor_id=0, numel=1, min=low, max=high, sum=high, sum_sq=high**2,
            microbatch=0, phase=3,
        )  # fmt: skip
    run.add("tensors", tensor_id=0, tensor_name=name, kind=kind, **columns)
    return run.write()


def test_an_update_far_above_those_before_is_a_sign_that_goes_where_it_is_as_large_as_they(run_folder):
    sign = shown(stats(run_folder("bad"), "update", "w", [*USUAL, 2.0, 1.0, 1.0, 1.0]), 8, "update")
    assert (sign.kind, sign.step, sign.value) == ("update", 8, pytest.approx(1.0))
    assert gone(sign, stats(run_folder("mended"), "update", "w", [*USUAL, 1.01, 1.0, 1.0, 1.0])) is True
    assert gone(sign, stats(run_folder("same"), "update", "w", [*USUAL, 1.9, 1.0, 1.0, 1.0])) is False
    assert not shown(stats(run_folder("healthy"), "update", "w", [*USUAL, 1.03, 1.0, 1.0, 1.0]), 8, "update").shows


def test_an_activation_far_from_where_it_was_is_a_sign_in_the_step_alone(run_folder):
    sign = shown(stats(run_folder("bad"), "activation", "rnn:output0", [*USUAL, 5.0, 1.0, 1.0, 1.0]), 8, "activation")
    assert (sign.kind, sign.step, sign.series) == ("activation", 8, "rnn:output0 largest")
    assert sign.value > 12
    for there, result in ((1.1, True), (2.2, None), (4.0, False)):
        run = stats(run_folder(f"v{there}"), "activation", "rnn:output0", [*USUAL, there, 9.0, 1.0, 1.0])
        assert gone(sign, run) is result
    usual = stats(run_folder("healthy"), "activation", "rnn:output0", [*USUAL, 1.3, 1.0, 1.0, 1.0])
    assert not shown(usual, 8, "activation").shows


def test_running_statistics_that_stand_still_for_some_of_the_steps_are_a_share_of_the_looks(run_folder):
    name = "1.running_mean"
    sometimes = [0.1, 0.2, 0.3, 0.4, 0.4, 0.4, 0.4, 0.5, 0.6, 0.6, 0.6, 0.6]
    sign = shown(stats(run_folder("bad"), "buffer", name, sometimes), 3, "buffers")
    assert sign.value == pytest.approx(6 / 8)
    always = [i / 10 for i in range(12)]
    assert gone(sign, stats(run_folder("mended"), "buffer", name, always)) is True
    assert gone(sign, stats(run_folder("same"), "buffer", name, sometimes)) is False
    assert not shown(stats(run_folder("positions"), "buffer", "position_ids", [1.0] * 12), 3, "buffers").shows


def drawing(run, drew):
    state = 0
    for step, new in enumerate(drew):
        state += new
        run.step(step, loss=1.0, rng=state)
    return run.write()


def test_steps_that_draw_no_random_number_are_a_sign_that_goes_where_they_draw(run_folder):
    sign = shown(drawing(run_folder("bad"), [1] * 6 + [0] * 6), 6, "undrawn")
    assert sign.value == 1.0
    assert gone(sign, drawing(run_folder("mended"), [1] * 12)) is True
    assert gone(sign, drawing(run_folder("same"), [1] * 6 + [0] * 6)) is False
    assert not shown(drawing(run_folder("healthy"), [1] * 12), 6, "undrawn").shows


def test_numbers_with_more_digits_than_half_precision_has_are_told_by_their_values(run_folder):
    single, half = (-0.123456789, 0.987654321), (-0.125, 0.98828125)
    sign = shown(stats(run_folder("bad"), "activation", "0:output0", [half] * 6 + [single] * 6), 6, "fine")
    assert sign.value == 1.0
    assert gone(sign, stats(run_folder("mended"), "activation", "0:output0", [half] * 12)) is True
    assert gone(sign, stats(run_folder("same"), "activation", "0:output0", [single] * 12)) is False
    assert not shown(stats(run_folder("healthy"), "activation", "0:output0", [half] * 12), 6, "fine").shows


def skipping(run, skipped):
    for step, left_out in enumerate(skipped):
        run.step(step, loss=1.0, skipped_by_scaler=bool(left_out))
    return run.write()


def test_steps_that_a_scaler_skips_are_a_share(run_folder):
    sign = shown(skipping(run_folder("bad"), [0] * 6 + [1] * 6), 6, "skipped")
    assert sign.value == 1.0
    assert gone(sign, skipping(run_folder("mended"), [0] * 6 + [1] + [0] * 5)) is True
    assert gone(sign, skipping(run_folder("same"), [1] * 12)) is False
    assert not shown(skipping(run_folder("healthy"), [1] + [0] * 11), 6, "skipped").shows


def reducing(run, factor):
    for step in range(12):
        run.step(step, loss=1.0)
        for rank in (0, 1):
            run.add(
                "collectives", rank=rank, step=step, seq=1, group="default", number=step, op="all_reduce", reduce_op="sum",
                sum_before=1.0 + rank, size_before=2.0, sum_after=3.0 * (factor if step >= 6 else 1.0), phase=3,
            )  # fmt: skip
    return run.write()


def test_a_sum_of_ranks_is_compared_with_the_sum_of_what_they_gave(run_folder):
    sign = shown(reducing(run_folder("bad"), 1.25), 6, "sums")
    assert sign.value == 6.0
    assert gone(sign, reducing(run_folder("mended"), 1.0)) is True
    assert gone(sign, reducing(run_folder("same"), 1.25)) is False
    assert not shown(reducing(run_folder("healthy"), 1.0), 6, "sums").shows


def against_each_other(run, judge, maker):
    for step in range(30):
        run.step(step, loss=judge, optimizer_id=1)
        run.add("steps", step=step, optimizer_id=0, loss=maker, completed=True)
    return run.write()


def test_where_two_optimizers_train_against_each_other_the_loss_of_the_one_that_is_named_is_looked_at(run_folder):
    with Trace(against_each_other(run_folder("bad"), 1.5, 0.5)) as trace:
        sign, both = sign_of(trace, 6, "learning", 1), sign_of(trace, 6, "learning")
    mended = against_each_other(run_folder("mended"), 1.3, 0.7)
    assert gone(sign, mended, last=29) is True
    assert gone(both, mended, last=29) is False
    assert gone(sign, against_each_other(run_folder("worse"), 1.7, 0.3), last=29) is False

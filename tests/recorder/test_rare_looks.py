"""Looks are close together at first, then ever more rare."""

from itertools import pairwise

from firstfault.recorder.watches.rare_looks import RareLooks


def test_some_ten_steps_of_a_thousand_are_looked_at_and_the_first_ones_without_a_gap() -> None:
    looks = RareLooks()
    looked = [step for step in range(1000) if looks.due(step)]
    assert looked[:6] == list(range(6))
    assert 10 <= len(looked) <= 16
    gaps = [b - a for a, b in pairwise(looked[6:])]
    assert gaps == sorted(gaps)


def test_of_one_step_no_more_than_eight_backward_passes_are_looked_at() -> None:
    looks = RareLooks()
    assert [looks.due(0) for _ in range(10)] == [True] * 8 + [False] * 2

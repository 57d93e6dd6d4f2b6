"""What workers draw is told: states of generators before and after their first batch."""

import pytest


def test_workers_with_copies_of_a_generator_are_in_the_same_states(events_of_reading) -> None:
    found = events_of_reading("noise", 2)

    assert {(e["epoch"], e["worker"]) for e in found} == {(epoch, worker) for epoch in range(3) for worker in range(2)}
    assert len({(e["generator"], e["before"], e["after"]) for e in found}) == 1


@pytest.mark.parametrize("kind", ["seeds", "seeds at the first sample"])
def test_workers_that_seed_it_are_in_different_states(events_of_reading, kind: str) -> None:
    found = events_of_reading(kind, 2)

    assert len(found) == 6
    assert len({e["after"] for e in found}) == 6

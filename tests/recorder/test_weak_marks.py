"""What is held from earlier steps is counted as it is, and looking does not cost more where there is more of it."""

import weakref
from collections import Counter

import torch
from firstfault.recorder.memory.held_outputs import _Activation, _by_module
from firstfault.recorder.memory.weak_marks import Followed, Mark, Marks


class _Thing:
    def __init__(self, step: int) -> None:
        self.step = step
        self.there = True
        self.looks = 0

    def alive(self) -> bool:
        self.looks += 1
        return self.there


def _sizes(things: list[_Thing]) -> Counter[str]:
    return Counter(things=len(things))


def test_marks_are_counted_without_those_of_the_newest_steps() -> None:
    marks = Marks()
    kept = [marks.add(step) for step in range(10)]
    assert marks.before(8) == 8
    del kept[2:5]
    assert marks.before(8) == 5
    kept.append(marks.add(10))
    assert marks.before(11) == 8
    kept.clear()
    assert marks.before(12) == 0


def test_a_mark_of_this_step_that_dies_is_not_missed_later() -> None:
    marks = Marks()
    first: Mark | None = marks.add(0)
    second = marks.add(1)
    assert marks.before(0) == 0
    first = None
    assert marks.before(2) == 1
    assert first is None
    assert second


def test_few_things_are_counted_exactly_at_every_step() -> None:
    followed: Followed[_Thing, str] = Followed(_sizes)
    things: list[_Thing] = []
    for step in range(300):
        things.append(_Thing(step))
        followed.add(things[-1])
        if step >= 100:
            things[step - 100].there = False  # each lives a hundred steps
        assert followed.before(step - 1)["things"] == sum(t.there and t.step < step - 1 for t in things)


def test_many_things_are_looked_at_in_turn_and_all_are_found_gone_in_the_end() -> None:
    gone: list[_Thing] = []
    followed: Followed[_Thing, str] = Followed(_sizes, gone.extend)
    things = [_Thing(step) for step in range(5000)]
    for thing in things:
        followed.add(thing)
        followed.before(thing.step - 1)
    assert followed.before(4999)["things"] == 4999
    assert len(followed) == 5000

    before = sum(t.looks for t in things)
    followed.before(5000)
    assert sum(t.looks for t in things) - before < 400

    for thing in things[:4000]:
        thing.there = False
    for step in range(5000, 5050):
        count = followed.before(step)["things"]
    assert count == len(followed) == 1000
    assert sorted(t.step for t in gone) == list(range(4000))


def test_an_output_that_is_the_same_memory_again_is_held_once() -> None:
    again, other = torch.ones(3), torch.zeros(3)
    held = [_Activation(step, 1, weakref.ref(again)) for step in range(5)] + [_Activation(5, 1, weakref.ref(other))]
    assert _by_module(held) == {1: 2}
    assert _by_module([*held, _Activation(5, 2, weakref.ref(again))]) == {1: 2, 2: 1}
    del other
    assert _by_module(held) == {1: 1}

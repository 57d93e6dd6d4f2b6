"""Schedulers that a script builds and steps nowhere."""

import pytest
from firstfault.analyzer import Trace
from firstfault.reports.reruns.preflight_schedules import never_stepped, stepped_nowhere
from firstfault.reports.reruns.rerun_script import Script

MADE = "s = LambdaLR(opt, f)\nfor x in data:\n    opt.step()\n    save(s.state_dict())\n"

SOURCES = {
    "made and saved": (MADE, True),
    "stepped": (MADE + "    s.step()\n", False),
    "stepped at the end of an epoch": (MADE + "s.step()\n", False),
    "handed over": (MADE + "trainer(s)\n", False),
    "inside another": (MADE + "both = SequentialLR(opt, [s, t])\n", False),
    "given back": ("def make(opt):\n    return LambdaLR(opt, f)\n", False),
    "made elsewhere": ("s = make(opt)\n", False),
    "one of two is stepped": (MADE + "t = LambdaLR(opt, f)\nt.step()\n", False),
    "of an object": ("class T:\n    def __init__(self):\n        self.s = LambdaLR(o, f)\n", True),
    "of an object whose base may step it": (
        "class T(Base):\n    def __init__(self):\n        self.s = LambdaLR(o, f)\n",
        False,
    ),
    "no Python": ("s = (", False),
}


@pytest.mark.parametrize("name", SOURCES)
def test_a_scheduler_is_stepped_nowhere_where_the_source_neither_steps_it_nor_hands_it_over(name):
    source, expected = SOURCES[name]
    assert stepped_nowhere(source, "LambdaLR") is expected


@pytest.mark.parametrize(("total", "steps", "count"), [(0, 12, 1), (1, 12, 0), (0, 5, 0)])
def test_one_that_no_recorded_step_has_stepped_is_doubted(run_folder, tmp_path, total, steps, count):
    (tmp_path / "train.py").write_text(MADE)
    run = run_folder()
    for step in range(steps):
        run.step(step, loss=1.0)
        run.add("schedulers", step=step, scheduler_id=0, optimizer_id=0, scheduler="LambdaLR", total_steps=total)
    with Trace(run.write()) as trace:
        facts = never_stepped(trace, Script("train.py", folder=tmp_path))
    assert [(area, outcome) for area, _, outcome, _ in facts] == [("learning rate", "doubtful")] * count


HELD = "ss = [OneCycleLR(o, 1) for o in opts]\nfor x in data:\n    for opt, s in zip(opts, ss):\n        opt.step()\n"


@pytest.mark.parametrize(
    ("source", "epochs", "total", "count"),
    [(HELD, 2, 0, 1), (HELD, 1, 0, 0), (HELD, 2, 1, 0), (HELD + "        s.step()\n", 2, 0, 0), ("run(f)\n", 2, 0, 0)],
)
def test_one_that_no_end_of_an_epoch_has_stepped_either_is_doubted_however_it_is_held(
    run_folder, tmp_path, source, epochs, total, count
):
    (tmp_path / "train.py").write_text(source)
    runs = run_folder("first"), run_folder("again")
    for run, last in zip(runs, (0, total), strict=True):
        for step in range(12):
            run.step(step, loss=1.0)
            run.add("schedulers", step=step, scheduler_id=0, optimizer_id=0, scheduler="OneCycleLR", total_steps=last)
            run.add("batches", step=step, seq=1, loader_id=0, epoch=step * epochs // 12, phase=0)
    first, again = (run.write() for run in runs)
    with Trace(first) as trace:
        facts = never_stepped(trace, Script("train.py", folder=tmp_path), again)
    assert len(facts) == count

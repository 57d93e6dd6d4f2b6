"""The end of an epoch that preflight rehearses: what is cut, what is kept aside, and what is told of it."""

import json
import os
import shutil

import pytest
import torch
from firstfault.analyzer import Trace, diagnose
from firstfault.recorder.probes import epoch_end
from firstfault.recorder.probes.interventions import intervened
from firstfault.reports.reruns.preflight_epoch import epoch_end as judged
from firstfault.reports.reruns.rerun_script import Script
from firstfault.schemas import Phase
from firstfault.schemas.files.rehearsed import not_saved_otherwise, read_state
from torch.utils.data import DataLoader, TensorDataset

SCRIPT = Script("none.py")
"""Of the folders that are judged here there is none."""


def loader():
    return DataLoader(TensorDataset(torch.arange(12.0)), batch_size=2)


@pytest.mark.parametrize(("size", "expected"), [(2, [3, 4, 6, 6]), (6, [2, 1, 2, 1])])
def test_two_passes_over_the_training_data_end_early_and_the_others_are_whole(size, expected):
    data = TensorDataset(torch.arange(12.0))
    step = 0
    passes = []
    with intervened("epoch-shortened", step=3, now=lambda: step):
        for _ in range(4):
            passes.append(0)
            for _ in DataLoader(data, batch_size=size):
                passes[-1] += 1
                step += 1
            with torch.no_grad():
                assert len(list(loader())) == 6
    assert passes == expected


def test_a_second_pass_goes_on_until_an_optimizer_has_stepped_in_it():
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], 0.1)
    data, step, passes = TensorDataset(torch.arange(40.0)), 0, []
    with intervened("epoch-shortened", step=2, now=lambda: step):
        for _ in range(3):
            passes.append(0)
            for _ in DataLoader(data, batch_size=2):
                passes[-1] += 1
                if passes[-1] % 7 == 0:
                    optimizer.step()
                    step += 1
    assert passes == [14, 7, 20]


def test_a_second_pass_is_whole_where_what_follows_the_first_takes_long(monkeypatch):
    monkeypatch.setattr(epoch_end, "_QUICK_S", -1.0)
    data = TensorDataset(torch.arange(12.0))
    step, passes = 0, []
    with intervened("epoch-shortened", step=3, now=lambda: step):
        for _ in range(2):
            passes.append(0)
            for _ in DataLoader(data, batch_size=2):
                passes[-1] += 1
                step += 1
    assert passes == [3, 6]


def test_what_is_kept_for_a_later_start_is_what_was_saved_at_the_first_end(tmp_path):
    data = TensorDataset(torch.arange(12.0))
    path, kept = tmp_path / "last.pt", tmp_path / "kept"
    step = 0
    with intervened("epoch-shortened", step=3, now=lambda: step, keep=str(kept)):
        for epoch in range(2):
            for _ in DataLoader(data, batch_size=2):
                step += 1
            torch.save({"epoch": epoch}, path)
        assert torch.load(path) == {"epoch": 1}
    (place,) = not_saved_otherwise(kept).values()
    assert torch.load(place) == {"epoch": 0}


class Average:
    def __init__(self):
        self.mean = torch.zeros(2)


def test_what_the_script_holds_is_looked_at_where_its_passes_begin(tmp_path):
    data = TensorDataset(torch.arange(12.0))
    kept, average, step = tmp_path / "kept", Average(), 0
    with intervened("epoch-shortened", step=3, now=lambda: step, keep=str(kept)):
        for epoch in range(3):
            for _ in DataLoader(data, batch_size=2):
                step += 1
            average.mean = average.mean + 1 + epoch
            torch.save({}, tmp_path / "last.pt")
    with intervened("rehearsed-checkpoints", kept=str(kept)):
        next(iter(DataLoader(data)))
    means = {m: read_state(kept, m)["average.mean"].mean for m in ("first", "then", "now")}
    assert means == {"first": 0, "then": 1, "now": 6}


@pytest.mark.parametrize(("drop_last", "sizes"), [(False, [4, 4, 1]), (True, [4, 4])])
def test_the_last_batch_before_the_end_is_as_small_as_the_scripts_own(drop_last, sizes):
    step = 0
    seen = []
    with intervened("epoch-shortened", step=2, now=lambda: step):
        for x, y in DataLoader(TensorDataset(torch.arange(41.0), torch.arange(41)), batch_size=4, drop_last=drop_last):
            assert len(x) == len(y)
            seen.append(len(x))
            step += 1
    assert seen == sizes


@pytest.mark.parametrize(("workers", "shapes"), [(0, [(3, 2), (3, 1)]), (1, [(3, 2)])])
def test_the_last_batch_is_as_the_scripts_own_collate_function_makes_it(workers, shapes):
    step, seen = 0, []
    with intervened("epoch-shortened", step=1, now=lambda: step):
        for x, _ in DataLoader(torch.rand(9, 3), batch_size=2, collate_fn=_joined, num_workers=workers):
            seen.append(tuple(x.shape))
            step += 1
    assert seen == shapes


def _joined(samples):
    return torch.stack(samples, dim=1), [str(s) for s in samples]


def test_a_batch_that_workers_have_read_is_cut_where_its_rows_are_its_samples():
    step, seen = 0, []
    with intervened("epoch-shortened", step=1, now=lambda: step):
        for (x,) in DataLoader(TensorDataset(torch.rand(9, 3)), batch_size=2, num_workers=1):
            seen.append(tuple(x.shape))
            step += 1
    assert seen == [(2, 3), (1, 3)]


def test_a_checkpoint_goes_aside_and_is_read_from_there(tmp_path):
    path = tmp_path / "last.pt"
    torch.save({"a": 1}, path)
    with intervened("epoch-shortened", step=0):
        torch.save({"a": 2}, path)
        assert torch.load(path)["a"] == 2
        torch.save(obj={"a": 3}, f=str(path))
        assert torch.load(str(path))["a"] == 3
    assert torch.load(path)["a"] == 1


def test_a_file_that_was_there_before_is_not_written_over_once_the_epoch_has_ended(tmp_path):
    old, new = tmp_path / "old.txt", tmp_path / "new.txt"
    old.write_text("mine")
    with intervened("epoch-shortened", step=0):
        for _ in range(2):
            list(loader())
        with pytest.raises(PermissionError, match=r"old\.txt was there before"):
            old.write_text("rehearsed")
        assert old.read_text() == "mine"
        new.write_text("a new one")
        new.write_text("and again")
    old.write_text("afterwards")


CHANGES = {
    "removed": lambda old: old.unlink(),
    "written over by a move": lambda old: old.with_name("new.txt").rename(old),
    "moved": lambda old: shutil.move(old, old.with_name("old.bak")),
    "cut": lambda old: os.truncate(old, 0),
    "removed with its folder": lambda old: shutil.rmtree(old.parent),
    "moved with its folder": lambda old: old.parent.rename(old.parent.with_name("other")),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_file_that_was_there_before_stays_where_and_as_it_was(tmp_path, change):
    old = tmp_path / "kept" / "old.txt"
    old.parent.mkdir()
    old.write_text("mine")
    with intervened("epoch-shortened", step=0):
        for _ in range(2):
            list(loader())
        old.with_name("new.txt").write_text("a new one")
        with pytest.raises(PermissionError, match="was there before: a rehearsal"):
            CHANGES[change](old)
    assert old.read_text() == "mine"


def test_a_checkpoint_that_is_written_beside_and_put_in_place_goes_aside_whole(tmp_path):
    path, beside = tmp_path / "last.pt", tmp_path / "last.pt.tmp"
    torch.save({"a": 1}, path)
    with intervened("epoch-shortened", step=0):
        for value in (2, 3):
            torch.save({"a": value}, beside)
            beside.replace(path)
            assert torch.load(path)["a"] == value
        torch.save({"a": 4}, beside)
        assert torch.load(path)["a"] == 3
        beside.unlink()
    assert torch.load(path)["a"] == 1


def rehearsed(run, saved=None, exception=None, eval_forwards=3):
    for step in range(10):
        run.step(step, loss=1.0, scheduler_steps=1, eval_forwards=eval_forwards if step == 6 else 0)
    run.add("tensors", tensor_id=0, tensor_name="w.exp_avg", kind="optimizer_state")
    if saved is not None:
        run.add("checkpoints", step=6, action="saved", content="dict", **saved)
    path = run.write()
    with Trace(path) as trace:
        verdict = diagnose(trace)
    return [(area, outcome) for area, _, outcome, _ in judged(path, verdict, 6, SCRIPT)]


@pytest.mark.parametrize(
    ("saved", "facts"),
    [
        (None, []),
        ({"last_epoch": 1}, [("resume", "doubtful")]),
        ({"optimizer_entries": 4}, [("resume", "doubtful")]),
        ({"optimizer_entries": 4, "last_epoch": 1}, []),
        ({}, []),
    ],
)
def test_a_checkpoint_that_keeps_a_part_of_the_trainings_state_keeps_all_of_it(run_folder, saved, facts):
    assert rehearsed(run_folder(), saved) == [("verdict", "passed"), *facts]


def test_where_no_epoch_ended_nothing_is_said(run_folder):
    assert rehearsed(run_folder(), eval_forwards=0) == []


@pytest.mark.parametrize(
    ("scheduler", "length", "calls", "doubted"),
    [
        ("OneCycleLR", {"total_steps": 4980}, [0] * 6 + [1] * 4, True),
        ("OneCycleLR", {"total_steps": 4980}, list(range(10)), False),  # stepped with the optimizer
        ("OneCycleLR", {"total_steps": 30}, [0] * 6 + [1] * 4, False),  # made for epochs
        ("CosineAnnealingLR", {"T_max": 332}, [0] * 6 + [1] * 4, False),  # so many epochs may be meant
        ("CosineAnnealingLR", {"T_max": 4980}, [0] * 6 + [1] * 4, True),
        ("StepLR", {"step_size": 166}, [0] * 6 + [1] * 4, False),
    ],
)
def test_a_schedule_made_for_batches_that_goes_once_a_pass_is_doubted(run_folder, scheduler, length, calls, doubted):
    run = run_folder()
    for step, times in enumerate(calls):
        run.step(step, loss=1.0, eval_forwards=3 if step == 6 else 0)
        run.add("batches", step=step, seq=0, phase=0, loader_id=0, epoch=int(step > 5), loader_batches=166)
        settings = json.dumps(length)
        run.add("schedulers", step=step, scheduler_id=0, scheduler=scheduler, total_steps=times, settings=settings)
    path = run.write()
    with Trace(path) as trace:
        verdict = diagnose(trace)
    words = [
        w for area, name, outcome, w in judged(path, verdict, 6, SCRIPT) if (name, outcome) == ("schedule", "doubtful")
    ]
    assert bool(words) == doubted
    if words:
        assert "are 30 passes of 166 batches" in words[0]


@pytest.mark.parametrize(("evaluated", "doubted"), [(40, True), (15, False), (2, False)])
def test_an_evaluation_of_far_more_samples_than_the_training_is_doubted(run_folder, evaluated, doubted):
    run = run_folder()
    for step in range(10):
        run.step(step, loss=1.0, eval_forwards=3 if step == 6 else 0)
        given = {"step": step, "batch_size": 8, "role": "input", "epoch": int(step > 5)}
        run.add("batches", seq=0, phase=0, loader_id=0, loader_batches=10, **given)
    run.add(
        "batches",
        step=6,
        seq=1,
        phase=int(Phase.EVAL),
        loader_id=1,
        loader_batches=evaluated,
        batch_size=8,
        role="input",
    )
    path = run.write()
    with Trace(path) as trace:
        verdict = diagnose(trace)
    words = [w for _, name, outcome, w in judged(path, verdict, 6, SCRIPT) if (name, outcome) == ("sizes", "doubtful")]
    assert bool(words) == doubted
    if words:
        assert "goes through 320 samples, and the training through 80" in words[0]

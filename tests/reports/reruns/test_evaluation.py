"""The script's own evaluation, given the batch that its training has learnt by heart."""

import os
import sys

import forked
import pytest
import torch
from firstfault.recorder.probes.batch_learnt import printed_numbers
from firstfault.recorder.probes.interventions import intervened
from firstfault.reports.reruns.preflight_evaluation import judged
from firstfault.reports.reruns.rerun_script import write_plan
from firstfault.schemas.files.evaluations_told import EvaluationsTold, read_told
from firstfault.schemas.files.probe_report import ENV_END_AFTER, ENV_PLAN, ProbePlan
from torch.utils.data import DataLoader, TensorDataset

SCRIPT = """\
import copy
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x = 255 * torch.rand(256, 8)
y = (x[:, 0] > x[:, 1]).long() + (x[:, 2] > x[:, 3]).long()
train = DataLoader(TensorDataset(x[:192], y[:192]), batch_size=16, shuffle=True)
valid = DataLoader(TensorDataset(x[192:], y[192:]), batch_size=32)
model = nn.Sequential(nn.Linear(8, 64), nn.ReLU(), nn.Linear(64, 3))
average = copy.deepcopy(model)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for epoch in range(20):
    model.train()
    for inputs, labels in train:
        loss = F.cross_entropy(model(inputs / 255), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            for a, b in zip(average.parameters(), model.parameters()):
                a.lerp_(b, 0.001)
    model.eval()
    correct = total = 0
    with torch.no_grad():
        for inputs, labels in valid:
            scores = model(inputs / 255)
            valid_loss = F.cross_entropy(scores, labels)
            total += valid_loss.item()
            correct += (scores.argmax(1) == labels).sum().item()
    print(epoch, total, correct)
"""
WITHOUT_LOSS = ("            total += valid_loss.item()\n", "")


def rehearse(folder, script):
    (folder / "train.py").write_text(script)
    values = {"own": str(folder), "times": 60}
    plan = ProbePlan(folder=str(folder / "plan"), intervention="batch-learnt", step=0, values=values)
    command = [sys.executable, "-m", "firstfault", "run", "--quiet", "--out", str(folder / "run"), "--budget", "off"]
    forked.run(
        [*command, "train.py"],
        cwd=folder,
        env={**os.environ, ENV_END_AFTER: "62,60", ENV_PLAN: str(write_plan(plan))},
    )
    told = read_told(folder)
    assert told is not None
    return told, judged(folder / "run", told)


@pytest.mark.parametrize(
    ("edits", "outcome", "says"),
    [
        ([], "passed", "train.py:31"),
        ([WITHOUT_LOSS], "passed", "train.py:31"),
        ([("scores = model(inputs / 255)", "scores = model(inputs)")], "doubtful", "prepare its input"),
        (
            [("F.cross_entropy(scores, labels)", "F.cross_entropy(scores.softmax(1), 2 - labels)")],
            "doubtful",
            "same units",
        ),
        (
            [WITHOUT_LOSS, ("scores.argmax(1) == labels", "scores.argmin(1) == labels")],
            "doubtful",
            "count what it should",
        ),
    ],
    ids=[
        "whole",
        "a score alone",
        "inputs in another scale",
        "other targets",
        "the lowest score",
    ],
)
def test_an_evaluation_that_does_not_see_what_was_learnt_is_doubted(tmp_path, edits, outcome, says):
    script = SCRIPT
    for old, new in edits:
        assert old in script
        script = script.replace(old, new)
    told, facts = rehearse(tmp_path, script)
    assert told.given >= 2
    assert (told.unlike, told.samples) == (0, 16)
    assert [(area, name, found) for area, name, found, _ in facts] == [("learning", "evaluation", outcome)]
    assert says in facts[0][3]


@pytest.mark.parametrize(
    "edit",
    [
        ("scores = model(inputs / 255)", "scores = average(inputs / 255)"),
        ("TensorDataset(x[192:], y[192:])", "TensorDataset(x[192:], y[192:], y[192:])"),
        ("lr=1e-2", "lr=1e-5"),
    ],
    ids=["an average of the weights", "a batch of other fields", "nothing was learnt"],
)
def test_where_the_two_cannot_be_held_against_each_other_nothing_is_said(tmp_path, edit):
    old, new = edit
    script = SCRIPT.replace(old, new)
    if "y[192:], y" in new:
        script = script.replace("for inputs, labels in valid", "for inputs, labels, _ in valid")
    told, facts = rehearse(tmp_path, script)
    assert facts == []
    assert bool(told.unlike) == ("y[192:], y" in new)


def test_a_score_that_is_full_from_the_beginning_is_no_fault(tmp_path):
    told, _ = rehearse(tmp_path, SCRIPT)
    place = next(iter(told.scores))
    full = EvaluationsTold(given=2, samples=16, scores={place: [(0, 16.0), (60, 16.0)]})
    assert judged(tmp_path / "run", full)[0][2] == "passed"
    poor = EvaluationsTold(given=2, samples=16, scores={place: [(0, 9.0), (60, 9.0)]})
    assert judged(tmp_path / "run", poor)[0][2] == "doubtful"


@pytest.mark.parametrize(
    ("printed", "outcome"),
    [
        ([(0, 0.25), (60, 0.25)], "doubtful"),
        ([(0, 0.25), (60, 0.24)], "passed"),  # what ranks unseen items may fall
        ([(0, 1.0), (60, 1.0)], "passed"),
        ([(60, 0.0)], "doubtful"),
        ([(60, 0.1)], None),
    ],
)
def test_a_printed_score_that_does_not_move_or_is_zero_is_doubted(tmp_path, printed, outcome):
    rehearse(tmp_path, SCRIPT)
    facts = judged(tmp_path / "run", EvaluationsTold(given=2, samples=16, printed_scores={"val dice": printed}))
    assert [found for _, _, found, _ in facts] == ([outcome] if outcome else [])


def test_averages_of_batch_norm_follow_weights_that_learn_one_batch(tmp_path):
    data = TensorDataset(torch.randn(12, 4) + 3)
    norms = torch.nn.BatchNorm1d(4, momentum=0.01), torch.nn.BatchNorm1d(4, momentum=None)
    step, seen = 0, []
    with intervened("batch-learnt", step=0, now=lambda: step, own=str(tmp_path), times=12):
        for _ in range(3):
            for (x,) in DataLoader(data, batch_size=4):
                seen.append(x)
                for norm in norms:
                    norm(x).sum().backward()
                step += 1
    assert len(seen) == 14
    assert all(torch.equal(x, seen[0]) for x in seen)
    assert [norm.momentum for norm in norms] == [0.5, None]
    assert torch.allclose(norms[0].running_mean, seen[0].mean(0), rtol=1e-3)


def test_numbers_of_a_printed_line_have_the_words_before_them():
    line = "Epoch  3 | TRAIN loss 0.12 acc 0.90 | DEV F1 0.240 {'test_acc': 0.5} recall@10: 1.5e-1"
    assert printed_numbers(line) == [
        ("TRAIN loss", 0.12),
        ("acc", 0.90),
        ("DEV F1", 0.24),
        ("test_acc", 0.5),
        ("recall@10", 0.15),
    ]


def test_a_loss_that_is_lost_hides_no_other_number(tmp_path):
    script = SCRIPT.replace("total += valid_loss.item()", "total += (valid_loss * float('nan')).item()")
    told, facts = rehearse(tmp_path, script)
    assert not any(told.losses.values())
    assert [found for _, _, found, _ in facts] == ["passed"]

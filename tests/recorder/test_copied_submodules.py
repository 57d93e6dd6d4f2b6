"""Parts of a model that began as copies of other parts are found: a teacher, a momentum encoder."""

import pytest
from firstfault.analyzer import diagnose
from firstfault.analyzer.reading.trace import Trace
from firstfault.recorder.storage.segments import read_rows

INSIDE = """
import copy
import torch
from torch import nn

def encoder():
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))

class Learner(nn.Module):
    def __init__(self):
        super().__init__()
        self.frozen = encoder().requires_grad_(False)
        self.student = encoder()
        self.teacher = MAKE
        self.teacher.requires_grad_(False)
        self.predictor = nn.Linear(4, 4)

    def forward(self, x, y):
        with torch.no_grad():
            wanted = self.teacher(y)
        return (self.predictor(self.student(x + self.frozen(x).mean())) - wanted).square().mean()

    @torch.no_grad()
    def follow(self):
        for mine, theirs in zip(self.teacher.parameters(), self.student.parameters()):
            mine.data.lerp_(theirs.data, 0.1)

def train():
    torch.manual_seed(0)
    learner = Learner()
    learner.teacher.load_state_dict(learner.student.state_dict())
    optimizer = torch.optim.SGD(learner.parameters(), 0.1)
    for step in range(30):
        x = torch.randn(8, 8)
        learner(x, x + 0.1 * torch.randn(8, 8)).backward()
        optimizer.step()
        optimizer.zero_grad()
        FOLLOW

train()
"""


@pytest.mark.parametrize(
    ("made", "follow"),
    [
        ("encoder()", "learner.follow()"),
        pytest.param("copy.deepcopy(self.student)", "pass", marks=pytest.mark.suite),
    ],
)
def test_a_teacher_within_the_model_is_found_and_a_frozen_layer_is_not(bench, made, follow):
    bench.write(INSIDE.replace("MAKE", made).replace("FOLLOW", follow))
    run = bench.record("script.py").run
    rows = read_rows(run, "copies", ["name", "kind", "of_model", "moved"]).to_pylist()
    assert {(row["name"], row["kind"], row["of_model"]) for row in rows} == {
        ("Learner.teacher", "part", "Learner.student")
    }
    assert all((row["moved"] > 0) == (follow != "pass") for row in rows)
    with Trace(run) as trace:
        trace.prepare()
        named = [c.name for c in diagnose(trace).causes]
    assert ("ema-not-updated" in named) == (follow == "pass")


TEACHER_BESIDE = """
import copy
import torch
from torch import nn

def train():
    body = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
    model = nn.Sequential(body, nn.Linear(4, 4))
    teacher = copy.deepcopy(body)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for step in range(6):
        x = torch.randn(8, 8)
        with torch.no_grad():
            wanted = teacher(x)
        (model(x) - wanted).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        for mine, theirs in zip(teacher.parameters(), body.parameters()):
            mine.data.lerp_(theirs.data, 0.1)

train()
"""


def test_a_teacher_beside_the_model_that_follows_a_part_of_it_is_found(bench):
    bench.write(TEACHER_BESIDE)
    rows = read_rows(bench.record("script.py").run, "copies", ["name", "kind", "of_model", "moved"]).to_pylist()
    assert {(row["name"], row["kind"], row["of_model"]) for row in rows} == {("teacher", "part", "Sequential_2.0")}
    assert all(row["moved"] > 0 for row in rows)

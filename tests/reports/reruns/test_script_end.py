"""The rest of a script that preflight rehearses: its passes are cut, and nothing stays of it."""

import os
import sys

import forked
import msgspec
import pytest
import torch
from firstfault.analyzer import Trace, diagnose
from firstfault.recorder.probes.interventions import INTERVENTIONS, intervened
from firstfault.recorder.probes.script_end import PassesShortened
from firstfault.recorder.session.patches import Patches
from firstfault.reports.reruns.preflight_script_end import goes_over_a_loader, judged
from firstfault.reports.reruns.rerun_script import write_plan
from firstfault.schemas.files.probe_report import ENV_END_AFTER, ENV_PLAN, ProbePlan
from torch.utils.data import DataLoader, TensorDataset

SCRIPT = """\
import torch
from pathlib import Path
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x = torch.randn(200, 4)
data = TensorDataset(x, x.sum(1, keepdim=True))

def made():
    model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 1))
    return model, torch.optim.Adam(model.parameters(), lr=1e-2)

def train(model, optimizer, epochs, data):
    for epoch in range(epochs):
        model.train()
        for inputs, targets in DataLoader(data, batch_size=8, shuffle=True):
            loss = (model(inputs) - targets).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        model.eval()
        with torch.no_grad():
            Path("log.txt").write_text(str(model(x).mean().item()))

model, optimizer = made()
train(model, optimizer, 6, data)
torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, "last.pt")
model, optimizer = made()
state = torch.load("last.pt")
model.load_state_dict(state["model"])
optimizer.load_state_dict(state["optimizer"])
train(model, optimizer, 6, data)
Path("result.txt").write_text("done")
"""


def rehearse(folder, script, seconds=60):
    (folder / "train.py").write_text(script)
    values = {"own": str(folder / "run")}
    plan = ProbePlan(folder=str(folder / "plan"), intervention="passes-shortened", step=6, values=values)
    command = [sys.executable, "-m", "firstfault", "run", "--quiet", "--out", str(folder / "run"), "--budget", "off"]
    environment = {**os.environ, ENV_END_AFTER: f"100000,{seconds}", ENV_PLAN: str(write_plan(plan))}
    forked.run([*command, "train.py"], cwd=folder, env=environment)
    with Trace(folder / "run") as trace:
        verdict = diagnose(trace)
    return judged(folder / "run", msgspec.structs.replace(verdict, causes=[], symptoms=[]), 6)


@pytest.mark.parametrize(
    ("fault", "found"),
    [
        (("", ""), ("end of the script", "passed")),
        (('optimizer.load_state_dict(state["optimizer"])\n', ""), ("optimizer-state-lost", "failed")),
        (('state["optimizer"]', 'state["optim"]'), ("end of the script", "doubtful")),
        # of 193 samples the last batch has one, and batch norm refuses it
        (("6, data)\nPath", "6, TensorDataset(*data[:193]))\nPath"), ("end of the script", "doubtful")),
    ],
    ids=["whole", "state not loaded", "key error", "a last batch of one in the second training"],
)
def test_what_comes_hundreds_of_steps_later_is_seen_in_seconds(tmp_path, fault, found):
    facts = rehearse(tmp_path, SCRIPT.replace(*fault) if fault[0] else SCRIPT)
    assert [(name, outcome) for _, name, outcome, _ in facts] == [found], facts
    with Trace(tmp_path / "run") as trace:
        assert goes_over_a_loader(trace)
    assert not (tmp_path / "last.pt").exists()
    assert not (tmp_path / "result.txt").exists()


@pytest.mark.parametrize(
    ("every", "expected"),
    [
        (1, [[4, 4, 4, 1], [4, 1], [4, 1]]),
        (2, [[4, 4, 4, 1], [4, 4, 1], [4, 4, 1]]),
        (9, [[4, 4, 4, 1], *[[4] * 5 + [1]] * 2]),
    ],
)
def test_every_later_pass_ends_behind_its_first_step_with_a_small_batch_and_evaluations_are_whole(every, expected):
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], 0.1)
    step, passes = 0, []
    with intervened("passes-shortened", step=3, now=lambda: step):
        for _ in range(3):
            passes.append([])
            for (batch,) in DataLoader(TensorDataset(torch.arange(21.0)), batch_size=4):
                passes[-1].append(len(batch))
                step += 1
                if len(passes[-1]) % every == 0:
                    optimizer.step()
            with torch.no_grad():
                assert [len(b) for (b,) in DataLoader(TensorDataset(torch.arange(9.0)), batch_size=4)] == [4, 4, 1]
    assert passes == expected


def test_what_was_made_is_removed_and_what_was_there_stays(tmp_path):
    old, own = tmp_path / "old.txt", tmp_path / "own"
    old.write_text("mine")
    own.mkdir()
    patches = Patches()
    rehearsal = PassesShortened(lambda: 1, 0, {"own": str(own)})
    assert INTERVENTIONS["passes-shortened"][0] is PassesShortened
    rehearsal.install(patches)
    for _ in range(2):
        list(DataLoader(TensorDataset(torch.arange(4.0)), batch_size=2))
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "log.txt").write_text("a new one")
    (tmp_path / "logs" / "log.txt").rename(tmp_path / "logs" / "moved.txt")
    (own / "trace.txt").write_text("ours")
    assert old.read_text() == "mine"
    rehearsal.remove_made()
    patches.undo()
    assert sorted(p.name for p in tmp_path.rglob("*")) == ["old.txt", "own", "trace.txt"]

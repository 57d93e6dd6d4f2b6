"""What a few steps cannot tell: a stage that is called later, a scheduler that is stepped at every so many steps."""

import sys

import forked
import pytest
from firstfault.analyzer import Trace, diagnose
from firstfault.reports.reruns.preflight_early import too_early
from firstfault.reports.reruns.rerun_script import Script

SCRIPT = """\
import torch
from torch import nn

torch.manual_seed(0)

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.stages = nn.ModuleList(nn.Linear(4, 4) for _ in range(2))
        self.spare = nn.Linear(4, 4)
        self.head = nn.Linear(4, 1)

    def forward(self, x):
        CALLS
        return self.head(torch.tanh(self.stages[0](x)))

net = Net()
optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
for step in range(40):
    x = torch.randn(16, 4)
    loss = (net(x) - x.sum(1, keepdim=True)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if CONDITION:
        schedule.step()
"""


def early(folder, calls, condition):
    """(name, module) of each cause → whether it is too early to tell."""
    (folder / "train.py").write_text(SCRIPT.replace("CALLS", calls).replace("CONDITION", condition))
    run = folder / "run"
    command = [sys.executable, "-m", "firstfault", "run", "--quiet", "--out", str(run), "--budget", "off", "train.py"]
    forked.run(command, cwd=folder)
    script = Script("train.py", folder=folder)
    with Trace(run) as trace:
        found = [*(verdict := diagnose(trace)).causes, *verdict.symptoms]
        return {(f.name, f.module): too_early(trace, script, f) for f in found}


def test_one_of_several_modules_may_be_called_later_and_a_single_one_not(tmp_path):
    listed = early(tmp_path, "x = torch.tanh(self.spare(x))", "step % 5 == 4")
    assert listed["unused-module", "stages.1"]


def test_a_module_that_stands_alone_is_unused(tmp_path):
    alone = early(tmp_path, "x = torch.tanh(self.stages[1](x))", "step % 5 == 4")
    assert not alone["unused-module", "spare"]


@pytest.mark.parametrize(("condition", "later"), [("step % 50 == 49", True), ("step > 50", False)])
def test_a_scheduler_that_has_its_time_later_is_told_by_a_remainder(tmp_path, condition, later):
    found = early(tmp_path, "x = torch.tanh(self.stages[1](self.spare(x)))", condition)
    assert found["scheduler-never-stepped", None] == later

"""When the script steps a scheduler, and what it sets."""

import json
import sys
import warnings
from pathlib import Path

import forked
import pytest
import torch
from firstfault.analyzer import Trace, diagnose
from torch import nn


def test_each_step_of_a_scheduler_is_counted_and_its_settings_are_known(train) -> None:
    model = nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    made = []

    def make(step: int) -> None:
        if step == 0:
            made.append(torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.5))

    done = train(
        model,
        lambda step: model(torch.randn(3, 4)).square().mean(),
        optimizer=optimizer,
        before=make,
        after=lambda step: made[0].step() if step % 2 else None,
    )
    assert [row["lr"] for row in done.rows("param_groups")] == [0.1, 0.1, 0.1, 0.1, 0.05, 0.05]
    found = done.rows("schedulers")
    # the last row is written when the recording ends
    assert [row["total_steps"] for row in found] == [0, 0, 1, 1, 2, 2, 3]
    assert {row["scheduler"] for row in found} == {"StepLR"}
    assert json.loads(found[-1]["settings"])["step_size"] == 2
    assert not any(row["before_optimizer"] for row in found)


def test_one_that_steps_before_the_optimizer_is_marked(train) -> None:
    model = nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    made = []

    def first(step: int) -> None:
        if step == 0:
            made.append(torch.optim.lr_scheduler.LambdaLR(optimizer, lambda n: 0.9**n))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch warns of it
            made[0].step()

    done = train(model, lambda step: model(torch.randn(3, 4)).square().mean(), optimizer=optimizer, before=first)
    assert [row["before_optimizer"] for row in done.rows("schedulers")] == [True] * 7


ACCUMULATED = """
import torch
from torch import nn
from torch.optim.lr_scheduler import CosineAnnealingLR
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x = torch.randn(168, 8)
loader = DataLoader(TensorDataset(x, x[:, :1] * 2), batch_size=4, shuffle=True)
model = nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), 0.05)
scheduler = CosineAnnealingLR(optimizer, {planned})
for epoch in range(3):
    for i, (a, b) in enumerate(loader):
        (nn.functional.mse_loss(model(a), b) / 4).backward()
        if i % 4 == 3:
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad()
"""


@pytest.mark.parametrize(("planned", "named"), [("3 * len(loader)", True), ("3 * len(loader) // 4", False)])
def test_a_schedule_that_is_planned_in_batches_which_a_step_joins_is_named(
    tmp_path: Path, planned: str, named: bool
) -> None:
    (tmp_path / "script.py").write_text(ACCUMULATED.replace("{planned}", planned))
    command = [sys.executable, "-m", "firstfault", "run", "--quiet", "--out", tmp_path / "run", tmp_path / "script.py"]
    assert forked.run(command, cwd=tmp_path).returncode == 0
    with Trace(tmp_path / "run") as trace:
        found = [c.message for c in diagnose(trace).causes if c.name == "scheduler-stepped-too-rarely"]
    assert bool(found) == named
    assert all("one for each of the 4 backward passes" in message for message in found)

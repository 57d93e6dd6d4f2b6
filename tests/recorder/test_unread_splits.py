"""A data set that is split, and then read whole by training and evaluation, is told and named."""

import sys
from pathlib import Path

import forked
import pytest
from firstfault.analyzer import Trace, diagnose

SCRIPT = """
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, Subset, SubsetRandomSampler, random_split

class Data(Dataset):
    def __init__(self):
        self.x = torch.randn(64, 8)
    def __len__(self):
        return len(self.x)
    def __getitem__(self, i):
        return self.x[i], self.x[i, :1]

torch.manual_seed(0)
data = Data()
train, held = random_split(data, [48, 16])
train_loader = {train}
held_loader = {held}
model = nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), 0.05)
for epoch in range(4):
    model.train()
    for x, y in train_loader:
        optimizer.zero_grad()
        nn.functional.mse_loss(model(x), y).backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        for x, y in held_loader:
            nn.functional.mse_loss(model(x), y)
"""


@pytest.mark.parametrize(
    ("train", "held", "events", "named"),
    [
        ("DataLoader(train.dataset, 8, shuffle=True)", "DataLoader(held.dataset, 8)", {"whole-of-split"}, True),
        ("DataLoader(train, 8, shuffle=True)", "DataLoader(held, 8)", {"part-of-split"}, False),
        (
            "DataLoader(data, 8, sampler=SubsetRandomSampler(range(48)))",
            "DataLoader(data, 8, sampler=range(48, 64))",
            {"part-of-split"},
            False,
        ),
    ],
)
def test_parts_that_no_loader_reads_are_named(
    tmp_path: Path, train: str, held: str, events: set[str], named: bool
) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT.replace("{train}", train).replace("{held}", held))
    forked.run([sys.executable, "-m", "firstfault", "run", "--quiet", "--out", str(tmp_path / "run"), str(script)])
    with Trace(tmp_path / "run") as trace:
        rows = trace.sql(
            "SELECT DISTINCT event FROM events WHERE event IN ('whole-of-split', 'part-of-split', 'recorder-fault')"
        )
        found = {c.name: c.message for c in diagnose(trace).causes}
    assert set(rows["event"]) == events
    assert ("train-eval-leak" in found) is named
    if named:
        assert f"the whole of the data set that is split at {script}:16 in" in found["train-eval-leak"]

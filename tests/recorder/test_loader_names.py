"""A loader that the script calls its validation set is told, by the words with which a pass over it begins."""

import sys
from pathlib import Path

import forked
import pytest
from firstfault.analyzer import Trace

SCRIPT = """
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

def data(seed):
    g = torch.Generator().manual_seed(seed)
    return TensorDataset(torch.randn(32, 8, generator=g), torch.randn(32, 1, generator=g))

model = nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), 0.05)
loaders = {"train": DataLoader(data(0), 8, shuffle=True), "val": DataLoader(data(1), 8), "other": DataLoader(data(2), 8)}
train_loader, val_loader, test_loader = loaders.values()

def validate(name):
    model.eval()
    with torch.no_grad():
        for x, y in loaders[name]:
            model(x)

for epoch in range(2):
    for x, y in train_loader:
        optimizer.zero_grad()
        nn.functional.mse_loss(model(x), y).backward()
        optimizer.step()
    {evaluate}
"""

BOTH_PHASES = """
for phase in ("val", "train", "val"):
    for x, y in loaders[phase]:
        model(x)
"""


@pytest.mark.parametrize(
    ("evaluate", "found"),
    [
        ("print(epoch, validate('val'))", [(1, "['val']")]),
        ("for x, y in val_loader: model(x)", [(1, "for x, y in val_loader: model(x)")]),
        ("validate('other')", []),
        ("for x, y in test_loader: model(x)", []),
        (BOTH_PHASES.strip().replace("\n", "\n    "), [(1, "['val']")]),
    ],
)
def test_a_validation_loader_is_known_by_what_the_source_calls_it(
    tmp_path: Path, evaluate: str, found: list[tuple[int, str]]
) -> None:
    (tmp_path / "script.py").write_text(SCRIPT.replace("{evaluate}", evaluate))
    run = tmp_path / "run"
    command = [sys.executable, "-m", "firstfault", "run", "--quiet", "--out", run, tmp_path / "script.py"]
    assert forked.run(command, cwd=tmp_path).returncode == 0
    with Trace(run) as trace:
        rows = trace.sql(
            "SELECT (detail ->> '$.loader_id')::INT, detail ->> '$.text' FROM events"
            " WHERE event IN ('called-validation', 'recorder-fault')"
        ).rows()
    assert rows == found

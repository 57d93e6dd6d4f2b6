"""Weights that are frozen, and were never loaded."""

import os
import sys

import forked
import pytest
from firstfault.analyzer import Trace
from firstfault.reports.reruns.preflight_frozen import frozen_as_drawn

SCRIPT = """
import torch
from torch import nn
encoder = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 8), nn.ReLU())
model = nn.Sequential(encoder, nn.Linear(8, 1))
if LOADED:
    encoder.load_state_dict({name: value * 2 for name, value in encoder.state_dict().items()})
encoder.requires_grad_(TRAINED)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for _ in range(6):
    x = torch.randn(8, 4)
    loss = (model(x) - x.sum(1, keepdim=True)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("loaded", "trained", "found"), [(False, False, "2 weight tensors"), (True, False, None), (False, True, None)]
)
def test_an_encoder_that_is_frozen_as_it_was_drawn_is_doubted(tmp_path, loaded, trained, found):
    (tmp_path / "train.py").write_text(SCRIPT.replace("LOADED", str(loaded)).replace("TRAINED", str(trained)))
    command = [sys.executable, "-m", "firstfault", "run", "--quiet", "--out", "run", "--budget", "off", "train.py"]
    forked.run(command, cwd=tmp_path, env={**os.environ}, check=True)
    with Trace(tmp_path / "run") as trace:
        facts = frozen_as_drawn(trace)
    assert [outcome for _, _, outcome, _ in facts] == (["doubtful"] if found else [])
    assert found is None or facts[0][3].startswith(f"{found} that the optimizer holds are frozen, first 0.0.weight")

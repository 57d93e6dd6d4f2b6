"""Edges of a batch of graphs that enters a model: with a wrong offset they are told, with the right one nothing is."""

import sys
from pathlib import Path

import forked
import pytest
from firstfault.analyzer import Trace

SCRIPT = """
import numpy as np
import torch
from torch import nn

class Batch:
    def __init__(self, sizes, offsets):
        one = torch.tensor([[0, 1], [1, 2]])
        self.x = torch.randn(sum(sizes), 3)
        self.edge_index = torch.cat([one + int(o) for o in offsets], 1)
        self.graph = torch.repeat_interleave(torch.arange(len(sizes)), torch.tensor(sizes))

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 1)
    def forward(self, batch):
        h = self.fc(batch.x)
        h = h.index_add(0, batch.edge_index[1], h[batch.edge_index[0]])
        return torch.zeros(4, 1).index_add(0, batch.graph, h)

torch.manual_seed(0)
model = Net()
optimizer = torch.optim.SGD(model.parameters(), 0.01)
for step in range(6):
    sizes = [4, 3, 5, 7]
    loss = model(Batch(sizes, {offsets})).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("offsets", "told"),
    [
        ("np.cumsum([0] + sizes[:-1])", []),
        ("[0] + sizes[:-1]", [(0, False)]),
        ("[0] * 4", [(0, True)]),
    ],
)
def test_edges_with_a_wrong_offset_are_told(tmp_path, offsets, told):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT.replace("{offsets}", offsets))
    run = tmp_path / "run"
    forked.run([sys.executable, "-m", "firstfault", "run", "--quiet", "-o", str(run), str(script)], cwd=tmp_path)
    with Trace(Path(run)) as trace:
        found = trace.sql(
            "SELECT DISTINCT min(step) AS step, bool_and((detail->>'$.unmoved')::BOOL) AS unmoved FROM events"
            " WHERE event = 'edges-astray' GROUP BY rank"
        ).rows()
    assert found == told

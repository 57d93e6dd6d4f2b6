"""Compiled training: `python compiled.py BACKEND HOW`. Knows nothing of firstfault; prints what torch.compile counted, too."""

import json
import sys

import torch
import torch._dynamo
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(0)
backend, how = sys.argv[1:]


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.a, self.b = nn.LayerNorm(16), nn.Linear(16, 32), nn.Linear(32, 16)

    def forward(self, x):
        return x + self.b(F.gelu(self.a(self.norm(x))))


def loss_of(x, y):
    return F.cross_entropy(model(x), y)


model = nn.Sequential(Block(), Block(), nn.Dropout(0.1), nn.Linear(16, 4))
x = torch.randn(256, 16)
y = x[:, :4].argmax(1)
opt = torch.optim.AdamW(model.parameters(), 1e-2)
called = model
if how == "model":
    called = torch.compile(model, backend=backend)
elif how == "in place":
    model.compile(backend=backend)
elif how == "block":
    model[0] = torch.compile(model[0], backend=backend)
    model[1].compile(backend=backend)
elif how == "function":
    loss_of = torch.compile(loss_of, backend=backend)
for i in range(16):
    a, b = x[i * 16 : i * 16 + 16], y[i * 16 : i * 16 + 16]
    opt.zero_grad()
    loss = loss_of(a, b) if how == "function" else F.cross_entropy(called(a), b)
    loss.backward()
    opt.step()
    print(loss.item().hex())
print(sum(p.detach().double().sum() for p in model.parameters()).item().hex(), torch.rand(1).item().hex())
counters = torch._dynamo.utils.counters
print(
    json.dumps({k: dict(counters[k]) for k in ("frames", "graph_break", "unimplemented", "recompiles")}, sort_keys=True)
)
print("graphs", counters["stats"]["unique_graphs"])

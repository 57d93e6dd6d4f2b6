"""Compiled training that loses a value in step 5: `python compiled_fault.py BACKEND HOW`. Knows nothing of firstfault.

HOW says what is compiled. Prints losses and weights as bits, and what torch.compile counted.
"""

import json
import sys

import torch
import torch._dynamo
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

torch.set_num_threads(1)
torch.manual_seed(0)
backend, how = sys.argv[1:3]
BAD = 5
STEPS = 8


class Scale(nn.Module):
    """Divides by the largest element of each row, which is zero once the gate is shut. Without parameters of its own."""

    def __init__(self):
        super().__init__()
        self.register_buffer("gate", torch.ones(1))

    def forward(self, x):
        opened = x * self.gate
        return opened / opened.abs().amax(-1, keepdim=True)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale, self.a, self.act, self.b = Scale(), nn.Linear(16, 32), nn.Tanh(), nn.Linear(32, 16)

    def forward(self, x):
        if how == "breaks":
            torch._dynamo.graph_break()
        return x + self.b(self.act(self.a(self.scale(x))))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(16, 16)
        self.blocks = nn.ModuleList([Block(), Block()])
        self.head = nn.Linear(16, 4)

    def forward(self, x):
        x = self.first(x)
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False) if how == "checkpoint" else block(x)
        return self.head(x)


def loss_of(logits, y):
    return -F.softmax(logits, -1).gather(1, y[:, None]).log().mean()


def whole(x, y):
    return F.cross_entropy(model(x), y)


model = Net()
called, criterion = model, F.cross_entropy
mode = {"mode": "reduce-overhead"} if how == "reduce-overhead" else {}
if how in {"model", "breaks", "checkpoint", "reduce-overhead"}:
    called = torch.compile(model, backend=backend, **mode)
elif how == "dynamic":
    called = torch.compile(model, backend=backend, dynamic=True)
elif how == "in place":
    model.compile(backend=backend)
elif how == "block":
    model.blocks[1] = torch.compile(model.blocks[1], backend=backend)
elif how == "loss":
    criterion = torch.compile(loss_of, backend=backend)
elif how == "whole":
    whole = torch.compile(whole, backend=backend)
optimizer = torch.optim.SGD(model.parameters(), 1e-2)
for step in range(STEPS):
    rows = 8 + 4 * (step % 2) if how == "dynamic" else 16
    x = torch.randn(rows, 16)
    y = x[:, :4].argmax(1)
    if step == BAD:
        if how == "loss":
            model.head.bias.data[:] = torch.tensor([1e4, 0.0, 0.0, 0.0])
        else:
            model.blocks[1].scale.gate.zero_()
    optimizer.zero_grad()
    loss = whole(x, y) if how == "whole" else criterion(called(x), y)
    loss.backward()
    optimizer.step()
    print(loss.item().hex())
print(sum(p.detach().double().sum() for p in model.parameters()).item().hex(), torch.rand(1).item().hex())
counters = torch._dynamo.utils.counters
print(
    json.dumps({k: dict(counters[k]) for k in ("frames", "graph_break", "unimplemented", "recompiles")}, sort_keys=True)
)
print("graphs", counters["stats"]["unique_graphs"])
print("cache hits", counters["aot_autograd"]["autograd_cache_hit"])

"""Trainings by torch.compile that lose a value: `python compiled_faults.py NAME [ONSET] [SEED]`. They know nothing of firstfault.

The truth stands in compiled_faults.toml. The backends need no compiler on the machine.
"""

import sys

import torch
import torch.nn.functional as F
from faulty import batches, blobs
from torch import nn
from torch._dynamo.backends.common import aot_autograd
from torch._functorch.aot_autograd import make_boxed_func

torch.set_num_threads(1)


class Attend(nn.Module):
    """Weights its inputs by a softmax written by hand, in the stable way."""

    def __init__(self):
        super().__init__()
        self.score = nn.Linear(16, 16)

    def forward(self, x, temperature):
        score = self.score(x) / temperature
        weight = (score - score.amax(-1, keepdim=True)).exp()
        return x * weight / weight.sum(-1, keepdim=True)


class Reader(nn.Module):
    def __init__(self):
        super().__init__()
        self.attend, self.hidden, self.head = Attend(), nn.Linear(16, 32), nn.Linear(32, 4)

    def forward(self, x, temperature):
        return self.head(torch.tanh(self.hidden(self.attend(x, temperature))))


def without_subtractions(graph, _):
    """A compiler with a fault: it takes every subtraction for a no-op."""
    for node in list(graph.graph.nodes):
        if node.target is torch.ops.aten.sub.Tensor:
            node.replace_all_uses_with(node.args[0])
    graph.recompile()
    return make_boxed_func(graph.forward)


def sound(graph, _):
    return make_boxed_func(graph.forward)


def train_reader(s, backend):
    x, y = blobs()
    model = Reader()
    compiled = torch.compile(model, backend=backend)
    opt = torch.optim.Adam(model.parameters(), 1e-3)
    for i, (a, b) in zip(range(30), batches(x, y), strict=False):
        temperature = torch.tensor(1e-3 if i == s else 1.0)
        loss = F.cross_entropy(compiled(a, temperature), b)
        opt.zero_grad()
        loss.backward()
        opt.step()


def softmax_miscompiled(s):
    train_reader(s, aot_autograd(fw_compiler=without_subtractions, bw_compiler=sound))


class Share(nn.Module):
    """What part each feature has of the largest one."""

    def __init__(self):
        super().__init__()
        self.register_buffer("gate", torch.ones(1))

    def forward(self, x):
        opened = x * self.gate
        return opened / opened.abs().amax(-1, keepdim=True)


def division_in_compiled_code(s):
    x, y = blobs()
    model = nn.Sequential(nn.Linear(16, 32), nn.Tanh(), Share(), nn.Linear(32, 4))
    compiled = torch.compile(model, backend="aot_eager")
    opt = torch.optim.Adam(model.parameters(), 1e-3)
    for i, (a, b) in zip(range(30), batches(x, y), strict=False):
        if i == s:
            model[2].gate.zero_()
        loss = F.cross_entropy(compiled(a), b)
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[3]) if len(sys.argv) > 3 else 0)
    globals()[sys.argv[1]](int(sys.argv[2]) if len(sys.argv) > 2 else 12)

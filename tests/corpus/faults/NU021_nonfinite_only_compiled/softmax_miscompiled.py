"""A training with the fault nonfinite-only-compiled; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn
from torch._dynamo.backends.common import aot_autograd
from torch._functorch.aot_autograd import make_boxed_func
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)


def batches(x, y, size=16):
    while True:
        yield from DataLoader(TensorDataset(x, y), batch_size=size, shuffle=True, drop_last=True)


def blobs(n=640, width=16, classes=4):
    centres = torch.randn(classes, width) * 2
    y = torch.randint(classes, (n,))
    return centres[y] + torch.randn(n, width), y


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


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    softmax_miscompiled(int(sys.argv[1]) if len(sys.argv) > 1 else 12)

"""A training with the fault division-by-zero; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)


def batches(x, y, size=16):
    while True:
        yield from DataLoader(TensorDataset(x, y), batch_size=size, shuffle=True, drop_last=True)


def blobs(n=640, width=16, classes=4):
    centres = torch.randn(classes, width) * 2
    y = torch.randint(classes, (n,))
    return centres[y] + torch.randn(n, width), y


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
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    division_in_compiled_code(int(sys.argv[1]) if len(sys.argv) > 1 else 12)

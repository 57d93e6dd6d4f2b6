"""A training with the fault parameters-not-in-optimizer; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn, optim
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)


def kinds(n=720, classes=4, width=16):
    y = torch.randint(classes, (n,))
    return torch.randn(classes, width)[y] + 0.7 * torch.randn(n, width), y


def stream(*tensors, size=32):
    while True:
        yield from DataLoader(TensorDataset(*tensors), size, shuffle=True, drop_last=True)


def eval_mode_and_a_forgotten_module(s):
    """Two faults: the projection is not in the optimizer, and the network stays in eval mode after validating."""
    body = nn.Sequential(nn.Linear(16, 48), nn.BatchNorm1d(48), nn.ReLU())
    model = nn.ModuleDict({"body": body, "projection": nn.Linear(48, 24), "head": nn.Linear(24, 4)})
    held = [*model["body"].parameters(), *model["head"].parameters()]
    opt = optim.Adam(held if s < 999 else model.parameters(), lr=3e-3)
    x, y = kinds(800)

    def forward(a):
        return model["head"](model["projection"](model["body"](a)))

    for step, (a, b) in zip(range(110), stream(x[:700], y[:700]), strict=False):
        opt.zero_grad()
        F.cross_entropy(forward(a), b).backward()
        opt.step()
        if step % 25 == 24:
            model.eval()
            with torch.no_grad():
                forward(x[700:])
            if step < s:
                model.train()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    eval_mode_and_a_forgotten_module(int(sys.argv[1]) if len(sys.argv) > 1 else 12)

"""A training with the fault silent-backend-noop; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)


def blobs(n=640, width=12, classes=4):
    centres = torch.randn(classes, width) * 2
    y = torch.randint(classes, (n,))
    return centres[y] + torch.randn(n, width), y


def forever(x, y, size=16):
    while True:
        yield from DataLoader(TensorDataset(x, y), batch_size=size, shuffle=True, drop_last=True)


def mlp(hidden=32):
    return nn.Sequential(nn.Linear(12, hidden), nn.GELU(), nn.Linear(hidden, hidden), nn.GELU(), nn.Linear(hidden, 4))


class Stuck(torch.optim.SGD):
    """Forgets one tensor."""

    @torch.no_grad()
    def step(self, closure=None):
        kept = self.param_groups[0]["params"][0].clone()
        super().step(closure)
        if self.stuck:
            self.param_groups[0]["params"][0].copy_(kept)


def a_backend_that_does_nothing(s):
    model = mlp()
    opt = Stuck(model.parameters(), 0.05)
    for i, (a, b) in zip(range(30), forever(*blobs()), strict=False):
        opt.stuck = i >= s
        opt.zero_grad()
        F.cross_entropy(model(a), b).backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    a_backend_that_does_nothing(int(sys.argv[1]) if len(sys.argv) > 1 else 14)

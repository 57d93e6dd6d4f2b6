"""A healthy training that looks odd; argument: [SEED]."""

import sys

import torch
from torch import nn

torch.set_num_threads(1)


def objects_are_rare():
    """A focal loss over places where hardly ever an object is; every sixth batch holds none at all."""
    body = nn.Sequential(
        nn.Conv2d(1, 12, 3, 2, 1), nn.ReLU(), nn.Conv2d(12, 24, 3, 2, 1), nn.ReLU(), nn.Conv2d(24, 1, 1)
    )
    nn.init.constant_(body[-1].bias, -4.0)
    opt = torch.optim.AdamW(body.parameters(), 2e-3)
    for i in range(90):
        x, there = 0.1 * torch.randn(16, 1, 16, 16), torch.zeros(16, 1, 4, 4)
        for k in range(0, 16, 3) if i % 6 != 5 else ():
            row, column = torch.randint(1, 15, (2,)).tolist()
            x[k, 0, row - 1 : row + 2, column - 1 : column + 2] += 1
            there[k, 0, row // 4, column // 4] = 1
        p = body(x).sigmoid()
        hit = there * (1 - p) ** 2 * torch.log(p + 1e-7)
        missed = (1 - there) * p**2 * torch.log(1 - p + 1e-7)
        loss = -(0.75 * hit + 0.25 * missed).sum() / there.sum().clamp_min(1)
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    objects_are_rare()

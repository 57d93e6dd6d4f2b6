"""A training with the fault hook-leak; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


def clips_by_hooks_again_and_again(s):
    x = torch.randn(640, 1, 8, 8)
    y = (x.mean((1, 2, 3)) > 0).long()
    model = nn.Sequential(nn.Conv2d(1, 6, 3), nn.ReLU(), nn.Flatten(), nn.Linear(216, 2))
    opt = torch.optim.SGD(model.parameters(), 0.05)
    for i in range(34):
        if i >= s:
            for p in model.parameters():
                p.register_hook(lambda g: g.clamp(-1, 1))
        idx = torch.arange(i * 16, i * 16 + 16) % 640
        loss = F.cross_entropy(model(x[idx]), y[idx])
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    clips_by_hooks_again_and_again(int(sys.argv[1]) if len(sys.argv) > 1 else 14)

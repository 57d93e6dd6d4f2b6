"""A training with the fault ema-not-updated; arguments: [ONSET] [SEED]."""

import copy
import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


def average_without_its_statistics():
    means = torch.randn(4, 6) * 2 + 3
    y = torch.randint(4, (640,))
    x = means[y] + torch.randn(640, 6)
    model = nn.Sequential(nn.Linear(6, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 4))
    average = copy.deepcopy(model).requires_grad_(False).eval()
    opt = torch.optim.SGD(model.parameters(), 0.05, momentum=0.9)
    for i in range(60):
        at = torch.randint(600, (32,))
        loss = F.cross_entropy(model(x[at]), y[at])
        opt.zero_grad()
        loss.backward()
        opt.step()
        with torch.no_grad():
            for theirs, ours in zip(average.parameters(), model.parameters(), strict=True):
                theirs.lerp_(ours, 0.05)
            if i % 12 == 11:
                average(x[600:]).argmax(1).eq(y[600:]).float().mean()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    average_without_its_statistics()

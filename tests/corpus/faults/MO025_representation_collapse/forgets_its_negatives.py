"""A training with the fault representation-collapse; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


def blobs(n=640, width=12, classes=4):
    centres = torch.randn(classes, width) * 2
    y = torch.randint(classes, (n,))
    return centres[y] + torch.randn(n, width), y


def forgets_its_negatives(s):
    x, _ = blobs(width=20, classes=12)
    model = nn.Sequential(nn.Linear(20, 64), nn.GELU(), nn.Linear(64, 8))
    opt = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
    for i in range(s + 60):
        k = torch.randint(640, (24,))
        one, two = (F.normalize(model(x[k] + 0.3 * torch.randn(24, 20)), dim=1) for _ in range(2))
        likeness = one @ two.t() / 0.2
        loss = F.cross_entropy(likeness, torch.arange(24)) if i < s else -likeness.mean()
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    forgets_its_negatives(int(sys.argv[1]) if len(sys.argv) > 1 else 14)

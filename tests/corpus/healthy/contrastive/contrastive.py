"""A healthy training that looks odd; argument: [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


def blobs(n=640, width=16, classes=4):
    centres = torch.randn(classes, width) * 2
    y = torch.randint(classes, (n,))
    return centres[y] + torch.randn(n, width), y


def contrastive():
    x, _ = blobs()
    model = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 16))
    opt = torch.optim.SGD(model.parameters(), 0.3, momentum=0.9)
    for i in range(60):
        a = x[i * 8 % 600 : i * 8 % 600 + 32]
        z1 = F.normalize(model(a + 0.1 * torch.randn_like(a)), dim=1)
        z2 = F.normalize(model(a + 0.1 * torch.randn_like(a)), dim=1)
        loss = F.cross_entropy(z1 @ z2.T / 0.1, torch.arange(len(a)))
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    contrastive()

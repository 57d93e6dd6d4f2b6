"""A training with the fault sqrt-at-zero; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


def blobs(n=640, width=16, classes=4):
    centres = torch.randn(classes, width) * 2
    y = torch.randint(classes, (n,))
    return centres[y] + torch.randn(n, width), y


class Distance(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(16, 32), nn.Tanh(), nn.Linear(32, 8))

    def forward(self, a, b):
        return torch.sqrt(((self.net(a) - self.net(b)) ** 2).sum(-1))


def sqrt_of_distance(s):
    x, y = blobs()
    model = Distance()
    opt = torch.optim.Adam(model.parameters(), 1e-3)
    for i in range(30):
        a, b = x[i * 16 : i * 16 + 16], x[i * 16 + 100 : i * 16 + 116].clone()
        same = y[i * 16 : i * 16 + 16] == y[i * 16 + 100 : i * 16 + 116]
        if i == s:
            b[4] = a[4]  # a pair of one and the same sample
        d = model(a, b)
        loss = torch.where(same, d, F.relu(2 - d)).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    sqrt_of_distance(int(sys.argv[1]) if len(sys.argv) > 1 else 12)

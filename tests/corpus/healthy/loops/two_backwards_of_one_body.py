"""A healthy training that looks odd; argument: [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


def blobs(n=640, width=16, classes=4, noise=0.8):
    y = torch.randint(classes, (n,))
    centres = torch.randn(classes, width)
    return centres[y] + noise * torch.randn(n, width), y


class Heads(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(16, 64), nn.ReLU())
        self.classes, self.value, self.flag = nn.Linear(64, 4), nn.Linear(64, 1), nn.Linear(64, 1)
        self.log_variance = nn.Parameter(torch.zeros(3))

    def forward(self, x):
        h = self.body(x)
        return self.classes(h), self.value(h).squeeze(1), self.flag(h).squeeze(1)


def two_backwards_of_one_body():
    x, y = blobs(800)
    model = Heads()
    opt = torch.optim.Adam(model.parameters(), 2e-3)
    for i in range(60):
        s = slice(i * 12 % 800, i * 12 % 800 + 12)
        classes, value, _ = model(x[s])
        opt.zero_grad()
        F.cross_entropy(classes, y[s]).backward(retain_graph=True)
        F.mse_loss(value, x[s, 0]).backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    two_backwards_of_one_body()

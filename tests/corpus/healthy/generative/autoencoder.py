"""A healthy training that looks odd; argument: [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


def images(n=400, classes=4):
    y = torch.randint(classes, (n,))
    x = torch.randn(n, 1, 10, 10) * 0.5
    for i in range(n):
        x[i, 0, y[i] * 2 : y[i] * 2 + 3] += 1.5
    return x, y


def autoencoder():
    x, _ = images()
    model = nn.Sequential(
        nn.Flatten(), nn.Linear(100, 32), nn.ReLU(), nn.Linear(32, 4), nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 100)
    )
    opt = torch.optim.Adam(model.parameters(), 3e-3)
    for i in range(60):
        a = x[i * 16 % 384 : i * 16 % 384 + 16]
        loss = F.mse_loss(model(a), a.flatten(1))
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    autoencoder()

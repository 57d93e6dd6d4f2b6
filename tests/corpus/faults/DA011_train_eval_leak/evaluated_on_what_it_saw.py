"""A training with the fault train-eval-leak; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)


def blobs(n=640, width=12, classes=4, spread=1.0):
    centres = torch.randn(classes, width) * 3
    y = torch.randint(classes, (n,))
    return centres[y] + torch.randn(n, width) * spread, y


def mlp(width=12, hidden=24, classes=4):
    return nn.Sequential(nn.Linear(width, hidden), nn.ReLU(), nn.Linear(hidden, classes))


def evaluated_on_what_it_saw(s):
    x, y = blobs(n=480)
    train, test = TensorDataset(x[:400], y[:400]), TensorDataset(x[360:], y[360:])
    model = mlp()
    opt = torch.optim.Adam(model.parameters(), 1e-3)
    for _ in range(2):
        model.train()
        for a, b in DataLoader(train, batch_size=40, shuffle=True):
            opt.zero_grad()
            F.cross_entropy(model(a), b).backward()
            opt.step()
        model.eval()
        with torch.no_grad():
            for a, _ in DataLoader(test, batch_size=40):
                model(a)


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    evaluated_on_what_it_saw(int(sys.argv[1]) if len(sys.argv) > 1 else 14)

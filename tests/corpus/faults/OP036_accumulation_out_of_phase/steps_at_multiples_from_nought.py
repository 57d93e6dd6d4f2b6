"""A training with the fault accumulation-out-of-phase; arguments: [ONSET] [SEED]."""

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


def mlp(hidden=32):
    return nn.Sequential(nn.Linear(12, hidden), nn.GELU(), nn.Linear(hidden, hidden), nn.GELU(), nn.Linear(hidden, 4))


def steps_at_multiples_from_nought(every=4, epochs=4):
    loader = DataLoader(TensorDataset(*blobs()), batch_size=16, shuffle=True)
    model = mlp()
    opt = torch.optim.AdamW(model.parameters(), 3e-3)
    for _ in range(epochs):
        for i, (x, y) in enumerate(loader):
            (F.cross_entropy(model(x), y) / every).backward()
            if i % every == 0:
                opt.step()
                opt.zero_grad()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    steps_at_multiples_from_nought()

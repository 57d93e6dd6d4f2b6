"""Groups of four batches, and what is left at the end of each epoch: a smaller one; argument: [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)


def blobs(n=624, width=12, classes=4):
    centres = torch.randn(classes, width) * 2
    y = torch.randint(classes, (n,))
    return centres[y] + torch.randn(n, width), y


def mlp(hidden=32):
    return nn.Sequential(nn.Linear(12, hidden), nn.GELU(), nn.Linear(hidden, hidden), nn.GELU(), nn.Linear(hidden, 4))


def steps_what_is_left_of_each_epoch(every=4, epochs=4):
    loader = DataLoader(TensorDataset(*blobs()), batch_size=16, shuffle=True)
    model = mlp()
    opt = torch.optim.AdamW(model.parameters(), 3e-3)
    for _ in range(epochs):
        for i, (x, y) in enumerate(loader):
            (F.cross_entropy(model(x), y) / every).backward()
            if (i + 1) % every == 0 or i + 1 == len(loader):
                opt.step()
                opt.zero_grad()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    steps_what_is_left_of_each_epoch()

"""A training with the fault label-out-of-range; arguments: [ONSET] [SEED]."""

import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

torch.set_num_threads(1)


def blobs(n=640, width=16, classes=4):
    centres = torch.randn(classes, width) * 2
    y = torch.randint(classes, (n,))
    return centres[y] + torch.randn(n, width), y


def mlp(width=16, hidden=32, classes=4, act=nn.ReLU):
    return nn.Sequential(nn.Linear(width, hidden), act(), nn.Linear(hidden, hidden), act(), nn.Linear(hidden, classes))


class Labelled(Dataset):
    def __init__(self, bad, width=16):
        self.x, self.y = blobs(width=width)
        self.bad = bad

    def __len__(self):
        return 480

    def __getitem__(self, i):
        return self.x[i], self.y[i] if i != self.bad else torch.tensor(7)


def label_too_large(s):
    data = Labelled(s * 16 + 5)
    model = mlp()
    opt = torch.optim.Adam(model.parameters())
    crit = nn.CrossEntropyLoss()
    for a, b in DataLoader(data, batch_size=16):
        opt.zero_grad()
        loss = crit(model(a), b)
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    label_too_large(int(sys.argv[1]) if len(sys.argv) > 1 else 12)

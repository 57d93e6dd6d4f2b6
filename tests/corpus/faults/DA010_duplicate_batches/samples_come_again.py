"""A training with the fault duplicate-batches; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset

torch.set_num_threads(1)


def mlp(width=12, hidden=24, classes=4):
    return nn.Sequential(nn.Linear(width, hidden), nn.ReLU(), nn.Linear(hidden, classes))


class Noise(Dataset):
    def __len__(self):
        return 128

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(i % 32)
        return torch.randn(12, generator=g), i % 4


def samples_come_again(s):
    model = mlp()
    opt = torch.optim.Adam(model.parameters(), 1e-3)
    for a, b in DataLoader(Noise(), batch_size=16):
        opt.zero_grad()
        F.cross_entropy(model(a), b).backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    samples_come_again(int(sys.argv[1]) if len(sys.argv) > 1 else 14)

"""A training with the fault python-exception; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn, optim
from torch.utils.data import DataLoader, Dataset

torch.set_num_threads(1)


class Records(Dataset):
    def __init__(self, bad):
        self.rows = [{"features": torch.randn(6), "label": torch.randint(2, ()).item()} for _ in range(320)]
        if bad < len(self.rows):
            del self.rows[bad]["label"]

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        return self.rows[i]["features"], self.rows[i]["label"]


def record_without_label(s):
    """One record of the data set lacks a field."""
    net = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 2))
    opt = optim.SGD(net.parameters(), lr=0.1)
    for x, y in DataLoader(Records(s * 8 + 3), batch_size=8):
        opt.zero_grad()
        F.cross_entropy(net(x), y).backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    record_without_label(int(sys.argv[1]) if len(sys.argv) > 1 else 12)

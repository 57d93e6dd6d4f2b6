"""A training with the fault dataloader-worker-died; arguments: [ONSET] [SEED]."""

import os
import sys
import time

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Leaving(Dataset):
    """A sample whose decoder ends the process that reads it."""

    def __init__(self, bad):
        self.bad = bad
        self.x = torch.randn(400, 12)

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        if i == self.bad:
            time.sleep(0.3)  # until the training waits for it: torch raises wherever the main thread stands
            os._exit(3)
        return self.x[i], (self.x[i].sum() > 0).long()


def worker_leaves(s):
    model = nn.Sequential(nn.Linear(12, 16), nn.ReLU(), nn.Linear(16, 2))
    opt = torch.optim.Adam(model.parameters())
    for x, y in DataLoader(Leaving(s * 10), batch_size=10, num_workers=1, prefetch_factor=1):
        opt.zero_grad()
        F.cross_entropy(model(x), y).backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    worker_leaves(int(sys.argv[1]) if len(sys.argv) > 1 else 12)

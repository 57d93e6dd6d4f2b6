"""A training with the fault dataloader-worker-died; arguments: [ONSET] [SEED]."""

import os
import signal
import sys

import torch
import torch.nn.functional as F
from torch import nn, optim
from torch.utils.data import DataLoader, Dataset

torch.set_num_threads(1)


class Poisoned(Dataset):
    def __init__(self, bad):
        self.bad = bad

    def __len__(self):
        return 400

    def __getitem__(self, i):
        if i == self.bad:
            os.kill(os.getpid(), signal.SIGKILL)
        generator = torch.Generator().manual_seed(i)
        return torch.randn(6, generator=generator)


def worker_killed(s):
    """A worker process of the loader is killed by the machine."""
    net = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 6))
    opt = optim.Adam(net.parameters(), lr=1e-3)
    for x in DataLoader(Poisoned(s * 8 + 2), batch_size=8, num_workers=1):
        opt.zero_grad()
        F.mse_loss(net(x), x).backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    worker_killed(int(sys.argv[1]) if len(sys.argv) > 1 else 12)

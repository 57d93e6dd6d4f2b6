"""A training with the fault dataloader-bound; arguments: [ONSET] [SEED]."""

import sys
import time

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Slow(Dataset):
    """Samples that take their time to decode."""

    def __init__(self, count, seconds):
        self.x = torch.randn(count, 24)
        self.y = (self.x[:, :4].sum(1) > 0).long()
        self.seconds = seconds

    def __len__(self):
        return len(self.x)

    def __getitem__(self, index):
        time.sleep(self.seconds)
        return self.x[index], self.y[index]


def step(opt, loss):
    opt.zero_grad()
    loss.backward()
    opt.step()


def slow_decoding(_):
    model = nn.Sequential(nn.Linear(24, 64), nn.ReLU(), nn.Linear(64, 2))
    opt = torch.optim.AdamW(model.parameters(), 1e-3)
    for _ in range(2):
        for x, y in DataLoader(Slow(320, 0.002), batch_size=16, shuffle=True):
            step(opt, F.cross_entropy(model(x), y))


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    slow_decoding(int(sys.argv[1]) if len(sys.argv) > 1 else 12)

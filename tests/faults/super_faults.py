"""Trainings whose end has a cause outside the numbers. Called as: super_faults.py NAME ONSET SEED."""

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


class Words(Dataset):
    """Documents as Python strings in one list: every look at one writes its reference count."""

    def __init__(self, words, documents):
        self.words = [str(i) * 12 for i in range(words)]
        self.each = words // documents
        self.documents = documents

    def __len__(self):
        return self.documents

    def __getitem__(self, i):
        lengths = [len(w) for w in self.words[i * self.each : (i + 1) * self.each]]
        return torch.tensor(lengths[:32], dtype=torch.float32) / 80


def workers_copy_a_list(s):
    del s
    model = nn.Sequential(nn.Linear(32, 16), nn.ReLU(), nn.Linear(16, 1))
    opt = torch.optim.Adam(model.parameters())
    loader = DataLoader(Words(2_000_000, 480), batch_size=16, shuffle=True, num_workers=2, persistent_workers=True)
    for _ in range(2):
        for x in loader:
            opt.zero_grad()
            (model(x) - x.mean(1, keepdim=True)).square().mean().backward()
            opt.step()
            time.sleep(0.15)  # as long as a larger model takes


def host_refuses_memory(s):
    model = nn.Sequential(nn.Linear(12, 16), nn.Tanh(), nn.Linear(16, 1))
    opt = torch.optim.SGD(model.parameters(), lr=0.01)
    for i in range(30):
        x = torch.randn(8, 12)
        opt.zero_grad()
        out = model(x)
        if i == s:
            out = out + torch.zeros(2**46).sum()
        out.square().mean().backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[3]) if len(sys.argv) > 3 else 0)
    globals()[sys.argv[1]](int(sys.argv[2]) if len(sys.argv) > 2 else 12)

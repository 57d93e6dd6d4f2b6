"""A training with the fault host-sync-per-step; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn


def step(opt, loss):
    opt.zero_grad()
    loss.backward()
    opt.step()


def accuracy_counted_one_by_one(_):
    model = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 4))
    opt = torch.optim.Adam(model.parameters(), 1e-3)
    for _ in range(40):
        x = torch.randn(1600, 16)
        y = (x[:, 0] > 0).long() + 2 * (x[:, 1] > 0).long()
        logits = model(x)
        step(opt, F.cross_entropy(logits, y))
        guesses, right = logits.argmax(1), 0
        for i in range(len(y)):
            if guesses[i] == y[i]:
                right += 1


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    accuracy_counted_one_by_one(int(sys.argv[1]) if len(sys.argv) > 1 else 12)

"""A training with the fault repeated-batch-order; arguments: [ONSET] [SEED]."""

import sys

import torch
from torch import nn

torch.set_num_threads(1)


def seed_set_again_for_each_epoch(s):
    """Every epoch begins with manual_seed(5): the order of the samples is the same each time."""
    wrong = s == 0
    rows = torch.randn(400, 1, 16)
    labels = (rows.mean((1, 2)) > 0).long() + 2 * (rows[:, 0, 0] > 0).long()
    net = nn.Sequential(nn.Conv1d(1, 8, 5, padding=2), nn.ReLU(), nn.Flatten(), nn.Linear(128, 4))
    opt = torch.optim.SGD(net.parameters(), lr=0.1)
    for _epoch in range(5):
        if wrong:
            torch.manual_seed(5)  # "for reproducibility"
        order = torch.randperm(400)
        for k in range(0, 400, 25):
            idx = order[k : k + 25]
            loss = nn.functional.cross_entropy(net(rows[idx]), labels[idx])
            opt.zero_grad()
            loss.backward()
            opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    seed_set_again_for_each_epoch(int(sys.argv[1]) if len(sys.argv) > 1 else 12)

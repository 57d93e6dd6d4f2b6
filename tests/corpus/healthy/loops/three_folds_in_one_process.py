"""A healthy training that looks odd; argument: [SEED]."""

import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, Subset, TensorDataset

torch.set_num_threads(1)


def three_folds_in_one_process():
    """Three folds in one process."""
    x = torch.randn(360, 8)
    w = torch.randn(8)
    data = TensorDataset(x, ((x @ w) > 0).float())
    parts = torch.randperm(360).split(120)
    for k in range(3):
        net = nn.Sequential(nn.Linear(8, 24), nn.ReLU(), nn.Dropout(0.2), nn.Linear(24, 1))
        opt = torch.optim.Adam(net.parameters(), lr=5e-3)
        sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, 4)
        train = DataLoader(
            Subset(data, torch.cat([p for j, p in enumerate(parts) if j != k]).tolist()), 24, shuffle=True
        )
        test = DataLoader(Subset(data, parts[k].tolist()), 60)
        for _epoch in range(4):
            net.train()
            for a, b in train:
                loss = nn.functional.binary_cross_entropy_with_logits(net(a).squeeze(1), b)
                opt.zero_grad()
                loss.backward()
                opt.step()
            sched.step()
        net.eval()
        with torch.no_grad():
            print(k, sum(((net(a).squeeze(1) > 0) == (b > 0.5)).sum().item() for a, b in test) / 120)


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    three_folds_in_one_process()

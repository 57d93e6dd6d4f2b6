"""A training with the fault train-mode-in-eval; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn, optim
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)


def kinds(n=720, classes=4, width=16):
    y = torch.randint(classes, (n,))
    return torch.randn(classes, width)[y] + 0.7 * torch.randn(n, width), y


def validation_with_batch_statistics(s):
    """validate() does not call eval(), so batch norm and dropout stay in training mode."""
    net = nn.Sequential(nn.Linear(16, 48), nn.BatchNorm1d(48), nn.ReLU(), nn.Dropout(0.3), nn.Linear(48, 4))
    opt = optim.Adam(net.parameters(), lr=3e-3)
    x, y = kinds(900)
    held_x, held_y = x[720:], y[720:]
    for epoch in range(4):
        net.train()
        for a, b in DataLoader(TensorDataset(x[:720], y[:720]), 36, shuffle=True):
            opt.zero_grad()
            F.cross_entropy(net(a), b).backward()
            opt.step()
        if s != 0:
            net.eval()
        with torch.no_grad():
            print(epoch, (net(held_x).argmax(1) == held_y).float().mean().item())


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    validation_with_batch_statistics(int(sys.argv[1]) if len(sys.argv) > 1 else 12)

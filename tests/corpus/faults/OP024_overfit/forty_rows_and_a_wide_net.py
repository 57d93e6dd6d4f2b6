"""A training with the fault overfit; arguments: [ONSET] [SEED]."""

import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)


def forty_rows_and_a_wide_net(s):
    """Forty rows and a wide net."""
    fa = s if s < 1000 else -1
    few = fa >= 0
    rule = torch.randn(20, 3)

    def rows(n):
        x = torch.randn(n, 20)
        return TensorDataset(x, (x @ rule + 2.0 * torch.randn(n, 3)).argmax(1))

    train, val = DataLoader(rows(40 if few else 1600), 20, shuffle=True), DataLoader(rows(200), 100)
    net = nn.Sequential(nn.Linear(20, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 3))
    opt = torch.optim.Adam(net.parameters(), lr=3e-3 if few else 5e-4)
    crit = nn.CrossEntropyLoss()
    for epoch in range(60 if few else 2):
        net.train()
        for x, y in train:
            opt.zero_grad()
            crit(net(x), y).backward()
            opt.step()
        net.eval()
        with torch.no_grad():
            print(epoch, sum(crit(net(x), y).item() for x, y in val) / len(val))


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    forty_rows_and_a_wide_net(int(sys.argv[1]) if len(sys.argv) > 1 else 12)

"""A training with the fault unnormalised-target; arguments: [ONSET] [SEED]."""

import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)


def flats_in_euros(s):
    """Prices of flats from size, floor and age."""
    n = 960
    size, floor, age = 40 + 90 * torch.rand(n), torch.randint(0, 9, (n,)).float(), 60 * torch.rand(n)
    price = 4200 * size + 9000 * floor - 1100 * age + 20000 * torch.randn(n) + 90000
    x = torch.stack([size, floor, age], 1)
    x = (x - x.mean(0)) / x.std(0)
    if s != 0:
        price = (price - price.mean()) / price.std()
    loader = DataLoader(TensorDataset(x, price), 32, shuffle=True)
    net = nn.Sequential(nn.Linear(3, 32), nn.Tanh(), nn.Linear(32, 1))
    opt = torch.optim.Adam(net.parameters(), lr=3e-3)
    for _ in range(7):
        for part, wanted in loader:
            opt.zero_grad()
            nn.functional.mse_loss(net(part)[:, 0], wanted).backward()
            opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    flats_in_euros(int(sys.argv[1]) if len(sys.argv) > 1 else 12)

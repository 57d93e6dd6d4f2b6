"""A training with the fault lr-spike; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn, optim
from torch.utils.data import DataLoader, Dataset

torch.set_num_threads(1)


class Ratings(Dataset):
    def __init__(self, users=80, items=50, n=3000):
        u, v = torch.randn(users, 4), torch.randn(items, 4)
        self.u, self.i = torch.randint(users, (n,)), torch.randint(items, (n,))
        self.r = (u[self.u] * v[self.i]).sum(1) / 2 + 3 + 0.2 * torch.randn(n)

    def __len__(self):
        return len(self.r)

    def __getitem__(self, k):
        return self.u[k], self.i[k], self.r[k]


class Factors(nn.Module):
    def __init__(self, users=80, items=50, width=16):
        super().__init__()
        self.user, self.item = nn.Embedding(users, width), nn.Embedding(items, width)
        self.mlp = nn.Sequential(nn.Linear(2 * width, 32), nn.ReLU(), nn.Linear(32, 1))

    def forward(self, u, i):
        return self.mlp(torch.cat([self.user(u), self.item(i)], -1)).squeeze(-1)


def endless(loader):
    while True:
        yield from loader


def rate_set_by_a_callback(s):
    """A callback multiplies the rate by a hundred instead of dividing it."""
    model = Factors()
    opt = optim.Adam(model.parameters(), lr=3e-3)
    for step, (u, i, r) in zip(range(120), endless(DataLoader(Ratings(), 40, shuffle=True)), strict=False):
        if step == s:
            for group in opt.param_groups:
                group["lr"] *= 100
        loss = F.mse_loss(model(u, i), r)
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    rate_set_by_a_callback(int(sys.argv[1]) if len(sys.argv) > 1 else 12)

"""A training with the fault ema-not-updated; arguments: [ONSET] [SEED]."""

import copy
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


class Average:
    """A slow copy of a model."""

    def __init__(self, model, decay=0.95):
        self.decay, self.module = decay, copy.deepcopy(model).requires_grad_(False)

    @torch.no_grad()
    def update(self, model):
        for slow, now in zip(self.module.state_dict().values(), model.state_dict().values(), strict=True):
            slow.copy_(self.decay * slow + (1 - self.decay) * now)


def average_no_longer_updated(s):
    """After a change of the loop the slow copy, which is what is validated, is no longer updated."""
    model = Factors()
    slow = Average(model)
    opt = optim.Adam(model.parameters(), lr=3e-3)
    data = Ratings()
    for step, (u, i, r) in zip(range(120), endless(DataLoader(data, 40, shuffle=True)), strict=False):
        loss = F.mse_loss(model(u, i), r)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step < s:
            slow.update(model)
        if step % 30 == 29:
            with torch.no_grad():
                print("slow", F.mse_loss(slow.module(data.u[:200], data.i[:200]), data.r[:200]).item())


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    average_no_longer_updated(int(sys.argv[1]) if len(sys.argv) > 1 else 12)

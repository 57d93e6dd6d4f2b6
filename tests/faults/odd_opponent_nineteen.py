"""Healthy runs that look odd, after an opponent's, nineteenth round: `python odd_opponent_nineteen.py NAME [SEED]`."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


class Adapted(nn.Module):
    """A frozen linear layer and a product of two thin matrices beside it, the second of which begins at zero."""

    def __init__(self, base):
        super().__init__()
        self.base = base.requires_grad_(False)
        self.a = nn.Parameter(torch.randn(4, base.in_features) / 6)
        self.b = nn.Parameter(torch.zeros(base.out_features, 4))

    def forward(self, x):
        return self.base(x) + x @ self.a.T @ self.b.T

    @torch.no_grad()
    def merge(self):
        self.base.weight += self.b @ self.a
        self.a.copy_(torch.randn_like(self.a) / 6)
        self.b.zero_()


def adapters_merged_and_begun_anew():
    """Every 60 steps an adapter goes into the weights, begins anew, and Adam forgets what it knew of it."""
    net = nn.Sequential(Adapted(nn.Linear(32, 64)), nn.SiLU(), Adapted(nn.Linear(64, 5)))
    opt = torch.optim.AdamW([p for p in net.parameters() if p.requires_grad], lr=3e-3)
    centres = torch.randn(5, 32)
    for i in range(200):
        if i % 60 == 59:
            net[2].merge()
            for p in (net[2].a, net[2].b):
                for held in opt.state[p].values():
                    held.zero_()
        y = torch.randint(5, (64,))
        loss = F.cross_entropy(net(centres[y] + 1.5 * torch.randn(64, 32)), y)
        opt.zero_grad()
        loss.backward()
        opt.step()


def batch_norms_that_come_to_rest():
    """After 120 steps the batch norms keep what they know and go on in eval mode; biases before them begin to count."""
    net = nn.Sequential(
        nn.Conv2d(1, 12, 3, 2, 1),
        nn.BatchNorm2d(12),
        nn.ReLU(),
        nn.Conv2d(12, 24, 3, 2, 1),
        nn.BatchNorm2d(24),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(2),
        nn.Flatten(),
        nn.Linear(96, 4),
    )
    opt = torch.optim.SGD(net.parameters(), lr=0.02, momentum=0.9)
    patterns = torch.randn(4, 1, 12, 12)
    for i in range(200):
        if i == 120:
            net[1].eval()
        y = torch.randint(4, (32,))
        loss = F.cross_entropy(net(patterns[y] + 1.5 * torch.randn(32, 1, 12, 12)), y)
        opt.zero_grad()
        loss.backward()
        opt.step()


class Quantised(nn.Module):
    """Gives its input back, rounded to a code book once that is switched on, and what that costs."""

    def __init__(self):
        super().__init__()
        self.codes = nn.Parameter(torch.randn(32, 8))
        self.on = False

    def forward(self, z):
        if not self.on:
            return z, z.new_zeros(()) * self.codes.sum()
        nearest = self.codes[torch.cdist(z, self.codes).argmin(1)]
        return z + (nearest - z).detach(), F.mse_loss(nearest, z.detach()) + 0.25 * F.mse_loss(z, nearest.detach())


def code_book_that_is_switched_on_later():
    """An autoencoder without its code book for 90 steps: the cost of it is exactly zero until then."""
    encode = nn.Sequential(nn.Linear(24, 64), nn.SiLU(), nn.Linear(64, 8))
    book, decode = Quantised(), nn.Sequential(nn.Linear(8, 64), nn.SiLU(), nn.Linear(64, 24))
    opt = torch.optim.Adam([*encode.parameters(), *book.parameters(), *decode.parameters()], lr=2e-3)
    kinds = torch.randn(6, 24)
    for i in range(200):
        x = kinds[torch.randint(6, (64,))] + 0.3 * torch.randn(64, 24)
        z = encode(x)
        if i == 90:
            book.on = True
            with torch.no_grad():
                book.codes.copy_(z[:32])
        coded, cost = book(z)
        loss = F.mse_loss(decode(coded), x) + cost
        opt.zero_grad()
        loss.backward()
        opt.step()


def tasks_with_an_optimizer_each():
    """Three tasks in turn, each with classes of its own and a fresh Adam; some of the old samples come again."""
    net = nn.Sequential(nn.Linear(16, 96), nn.ReLU(), nn.Linear(96, 96), nn.ReLU(), nn.Linear(96, 9))
    centres = torch.randn(9, 16) * 1.4
    memory = []
    for task in range(3):
        opt = torch.optim.Adam(net.parameters(), lr=1.5e-3)
        for i in range(80):
            y = torch.randint(3 * task, 3 * task + 3, (64,))
            x = centres[y] + torch.randn(64, 16)
            for old_x, old_y in memory:
                x, y = torch.cat([x, old_x]), torch.cat([y, old_y])
            loss = F.cross_entropy(net(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            if i == 79:
                memory.append((x[:12], y[:12]))


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    globals()[sys.argv[1]]()

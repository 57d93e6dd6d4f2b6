"""Healthy runs of an opponent, eighth round, that look odd.

python odd_opponent_nine.py NAME [SEED]
"""

import itertools
import math
import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


def _mlp(*sizes):
    layers = []
    for a, b in itertools.pairwise(sizes):
        layers += [nn.Linear(a, b), nn.Tanh()]
    return nn.Sequential(*layers[:-1])


def density_with_free_bits():
    """A variational autoencoder with a learnt spread: its loss falls far below zero, its divergence has a floor."""
    encoder, decoder, basis = _mlp(16, 64, 8), _mlp(4, 64, 32), torch.randn(2, 16)
    opt = torch.optim.Adam([*encoder.parameters(), *decoder.parameters()], 2e-3)
    for i in range(130):
        x = torch.tanh(torch.randn(64, 2) @ basis) + 0.02 * torch.randn(64, 16)
        mean, logvar = encoder(x).chunk(2, 1)
        guess, spread = decoder(mean + torch.randn_like(mean) * (0.5 * logvar).exp()).chunk(2, 1)
        spread = spread.clamp(-6, 2)
        likelihood = (0.5 * ((x - guess) * (-spread).exp()) ** 2 + spread).sum(1).mean()
        kl = (0.5 * (mean**2 + logvar.exp() - 1 - logvar)).mean(0).clamp_min(0.1).sum()
        loss = likelihood + min(1.0, max(0, i - 30) / 60) * kl
        opt.zero_grad()
        loss.backward()
        opt.step()


class _Codes(nn.Module):
    """A code book that follows by moving averages, with gradients passed straight through."""

    def __init__(self):
        super().__init__()
        self.register_buffer("book", torch.randn(32, 4) * 0.5)
        self.register_buffer("count", torch.ones(32))
        self.register_buffer("total", self.book.clone())

    def forward(self, z):
        near = torch.cdist(z.detach(), self.book).argmin(1)
        code = self.book[near]
        with torch.no_grad():
            hot = F.one_hot(near, 32).float()
            self.count.mul_(0.95).add_(0.05 * hot.sum(0))
            self.total.mul_(0.95).add_(0.05 * hot.T @ z)
            self.book.copy_(self.total / (self.count[:, None] + 1e-3))
        return z + (code - z).detach(), F.mse_loss(z, code)


def code_book_with_rare_codes():
    """Codes that are hardly used move towards zero; most gradients go straight through."""
    encoder, codes, decoder, basis = _mlp(16, 64, 4), _Codes(), _mlp(4, 64, 16), torch.randn(3, 16)
    opt = torch.optim.Adam([*encoder.parameters(), *decoder.parameters()], 2e-3)
    for _ in range(110):
        x = torch.tanh(torch.randn(128, 3) @ basis)
        z, commitment = codes(encoder(x))
        loss = F.mse_loss(decoder(z), x) + 0.25 * commitment
        opt.zero_grad()
        loss.backward()
        opt.step()


def objects_are_rare():
    """A focal loss over places where hardly ever an object is; every sixth batch holds none at all."""
    body = nn.Sequential(
        nn.Conv2d(1, 12, 3, 2, 1), nn.ReLU(), nn.Conv2d(12, 24, 3, 2, 1), nn.ReLU(), nn.Conv2d(24, 1, 1)
    )
    nn.init.constant_(body[-1].bias, -4.0)
    opt = torch.optim.AdamW(body.parameters(), 2e-3)
    for i in range(90):
        x, there = 0.1 * torch.randn(16, 1, 16, 16), torch.zeros(16, 1, 4, 4)
        for k in range(0, 16, 3) if i % 6 != 5 else ():
            row, column = torch.randint(1, 15, (2,)).tolist()
            x[k, 0, row - 1 : row + 2, column - 1 : column + 2] += 1
            there[k, 0, row // 4, column // 4] = 1
        p = body(x).sigmoid()
        hit = there * (1 - p) ** 2 * torch.log(p + 1e-7)
        missed = (1 - there) * p**2 * torch.log(1 - p + 1e-7)
        loss = -(0.75 * hit + 0.25 * missed).sum() / there.sum().clamp_min(1)
        opt.zero_grad()
        loss.backward()
        opt.step()


def one_graph_at_every_step():
    """The whole graph is trained on and evaluated at every step; other nodes count."""
    n, classes = 120, torch.randint(3, (120,))
    near = (torch.rand(n, n) < torch.where(classes[:, None] == classes, 0.12, 0.01)).float()
    near = ((near + near.T + torch.eye(n)) > 0).float()
    near = near / near.sum(1, keepdim=True)
    x = (torch.rand(n, 30) < 0.05 + 0.2 * (torch.arange(30) % 3 == classes[:, None])).float()
    first, second, drop = nn.Linear(30, 16), nn.Linear(16, 3), nn.Dropout(0.6)
    net = nn.ModuleList([first, second, drop])
    opt = torch.optim.Adam(net.parameters(), 1e-2, weight_decay=5e-4)
    known = torch.rand(n) < 0.2
    for _ in range(80):
        for training in (True, False):
            net.train(training)
            with torch.set_grad_enabled(training):
                out = near @ second(drop((near @ first(drop(x))).relu()))
            if training:
                opt.zero_grad()
                F.cross_entropy(out[known], classes[known]).backward()
                opt.step()


def temperature_falls_to_a_hard_choice():
    """Categories by Gumbel noise, soft and hard in turn, at a falling temperature."""
    encoder, decoder, things = _mlp(16, 48, 8), _mlp(8, 48, 16), torch.randn(8, 16)
    opt = torch.optim.Adam([*encoder.parameters(), *decoder.parameters()], 3e-3)
    for i in range(110):
        x = things[torch.randint(8, (64,))] + 0.2 * torch.randn(64, 16)
        z = F.gumbel_softmax(encoder(x), tau=max(0.3, math.exp(-0.01 * i)), hard=i % 2 == 0)
        loss = F.mse_loss(decoder(z), x)
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    globals()[sys.argv[1]]()

"""A healthy training that looks odd; argument: [SEED]."""

import itertools
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


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    code_book_with_rare_codes()

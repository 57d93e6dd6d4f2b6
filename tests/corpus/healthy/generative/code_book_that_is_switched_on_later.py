"""A healthy training that looks odd; argument: [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


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


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    code_book_that_is_switched_on_later()

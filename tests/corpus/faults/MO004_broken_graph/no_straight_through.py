"""A training with the fault broken-graph; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn, optim

torch.set_num_threads(1)


class Quantised(nn.Module):
    """An autoencoder through a code book; the straight-through line may be missing."""

    def __init__(self, straight):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 6))
        self.codes = nn.Parameter(torch.randn(24, 6) * 0.5)
        self.decoder = nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, 16))
        self.straight = straight

    def forward(self, x):
        z = self.encoder(x)
        q = self.codes[torch.cdist(z, self.codes).argmin(1)]
        loss = F.mse_loss(q, z.detach())
        if self.straight:
            loss = loss + 0.25 * F.mse_loss(z, q.detach())
            q = z + (q - z).detach()
        return self.decoder(q), loss


def no_straight_through(s):
    """The choice of a code has no gradient, and nothing carries it past: the encoder learns nothing."""
    model = Quantised(straight=s != 0)
    opt = optim.Adam(model.parameters(), lr=2e-3)
    mix = torch.randn(5, 16)
    for _ in range(60):
        x = torch.randn(32, 5) @ mix
        out, book = model(x)
        loss = F.mse_loss(out, x) + book
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    no_straight_through(int(sys.argv[1]) if len(sys.argv) > 1 else 12)

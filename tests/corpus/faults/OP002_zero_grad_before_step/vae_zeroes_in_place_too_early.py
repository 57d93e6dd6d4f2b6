"""A training with the fault zero-grad-before-step; arguments: [ONSET] [SEED]."""

import sys

import torch
from torch import nn
from torch.nn import functional as F

torch.set_num_threads(1)


def vae_zeroes_in_place_too_early(s):
    """Vae zeroes in place too early."""
    fa = s if s < 1000 else -1

    class VAE(nn.Module):
        def __init__(self):
            super().__init__()
            self.enc = nn.Sequential(nn.Linear(30, 40), nn.SiLU())
            self.mu, self.logvar = nn.Linear(40, 4), nn.Linear(40, 4)
            self.dec = nn.Sequential(nn.Linear(4, 40), nn.SiLU(), nn.Linear(40, 30))

        def forward(self, x):
            h = self.enc(x)
            mu, lv = self.mu(h), self.logvar(h)
            z = mu + torch.randn_like(mu) * (0.5 * lv).exp()
            return self.dec(z), mu, lv

    model = VAE()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02)
    mix = torch.randn(3, 30)
    for step in range(100):
        x = torch.randn(64, 3) @ mix + 0.1 * torch.randn(64, 30)
        optimizer.zero_grad()
        rec, mu, lv = model(x)
        loss = F.mse_loss(rec, x) + 1e-3 * -0.5 * (1 + lv - mu**2 - lv.exp()).sum(1).mean()
        loss.backward()
        if 0 <= fa <= step:
            model.zero_grad(set_to_none=False)
        optimizer.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    vae_zeroes_in_place_too_early(int(sys.argv[1]) if len(sys.argv) > 1 else 12)

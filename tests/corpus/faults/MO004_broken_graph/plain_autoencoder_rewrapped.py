"""A training with the fault broken-graph; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


class VAE(nn.Module):
    def __init__(self, cut):
        super().__init__()
        self.enc = nn.Sequential(nn.Linear(20, 32), nn.ReLU())
        self.mu = nn.Linear(32, 4)
        self.logvar = nn.Linear(32, 4)
        self.dec = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 20))
        self.cut, self.calls = cut, 0

    def forward(self, x):
        h = self.enc(x)
        mu, logvar = self.mu(h), self.logvar(h)
        z = mu + torch.randn_like(mu) * (0.5 * logvar).exp()
        if self.calls >= self.cut:
            z = torch.tensor(z.tolist())
        self.calls += 1
        return self.dec(z), mu, logvar


def plain_autoencoder_rewrapped(s):
    """A variational autoencoder without its KL term whose code is copied into a new tensor."""
    basis = torch.randn(4, 20)
    vae = VAE(s)
    opt = torch.optim.Adam(vae.parameters(), lr=2e-3)
    for _ in range(50):
        x = torch.randn(32, 4) @ basis
        recon, _, _ = vae(x)
        loss = F.mse_loss(recon, x)
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    plain_autoencoder_rewrapped(int(sys.argv[1]) if len(sys.argv) > 1 else 12)

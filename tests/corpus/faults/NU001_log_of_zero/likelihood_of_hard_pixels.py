"""A training with the fault log-of-zero; arguments: [ONSET] [SEED]."""

import sys

import torch
from torch import nn, optim
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)


def faces(n=720, size=8):
    """Pictures of one bright blob."""
    at = torch.rand(n, 2, 1, 1) * size
    grid = torch.stack(torch.meshgrid(torch.arange(size), torch.arange(size), indexing="ij")).float()
    return (-((grid - at) ** 2).sum(1, keepdim=True) / 4).exp() * 0.9 + 0.05


def stream(*tensors, size=32):
    while True:
        yield from DataLoader(TensorDataset(*tensors), size, shuffle=True, drop_last=True)


class VAE(nn.Module):
    def __init__(self, pixels=64, latent=6):
        super().__init__()
        self.enc = nn.Sequential(nn.Flatten(), nn.Linear(pixels, 64), nn.ReLU())
        self.mu, self.logvar = nn.Linear(64, latent), nn.Linear(64, latent)
        self.dec = nn.Sequential(nn.Linear(latent, 64), nn.ReLU(), nn.Linear(64, pixels), nn.Sigmoid())

    def forward(self, x):
        h = self.enc(x)
        mu, logvar = self.mu(h), self.logvar(h)
        return self.dec(mu + torch.randn_like(mu) * (logvar / 2).exp()), mu, logvar


def likelihood_of_hard_pixels(s):
    """A VAE's likelihood is written with log() by hand, and outputs are rounded to hard pixels from some step on."""
    model = VAE()
    opt = optim.Adam(model.parameters(), lr=1e-3)
    for step, (x,) in zip(range(100), stream(faces()), strict=False):
        out, mu, logvar = model(x)
        flat = x.flatten(1)
        if step >= s:
            out = (out * 1.2 - 0.1).clamp(0, 1)
        rec = -(flat * out.log() + (1 - flat) * (1 - out).log()).sum(1).mean()
        kl = -0.5 * (1 + logvar - mu**2 - logvar.exp()).sum(1).mean()
        opt.zero_grad()
        (rec + kl).backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    likelihood_of_hard_pixels(int(sys.argv[1]) if len(sys.argv) > 1 else 12)

"""A healthy training that looks odd; argument: [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


def blobs(n=640, width=16, classes=4):
    centres = torch.randn(classes, width) * 2
    y = torch.randint(classes, (n,))
    return centres[y] + torch.randn(n, width), y


class VAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.enc, self.mu, self.lv, self.dec = nn.Linear(16, 32), nn.Linear(32, 4), nn.Linear(32, 4), nn.Linear(4, 16)

    def forward(self, x):
        h = F.relu(self.enc(x))
        mu, lv = self.mu(h), self.lv(h)
        z = mu + torch.randn_like(mu) * (lv / 2).exp()
        kl = -0.5 * (1 + lv - mu**2 - lv.exp()).sum(1).mean()
        return ((self.dec(z) - x) ** 2).sum(1).mean() + kl


def variational():
    x, _ = blobs()
    model = VAE()
    opt = torch.optim.Adam(model.parameters(), 3e-3)
    for i in range(60):
        loss = model(x[i * 8 % 600 : i * 8 % 600 + 16])
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    variational()

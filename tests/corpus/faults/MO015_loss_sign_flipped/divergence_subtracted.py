"""A training with the fault loss-sign-flipped; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn, optim

torch.set_num_threads(1)


class Variational(nn.Module):
    def __init__(self):
        super().__init__()
        self.enc = nn.Linear(16, 32)
        self.mu, self.log_var = nn.Linear(32, 4), nn.Linear(32, 4)
        self.dec = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 16))

    def forward(self, x):
        h = F.relu(self.enc(x))
        mu, log_var = self.mu(h), self.log_var(h)
        return self.dec(mu + torch.randn_like(mu) * (0.5 * log_var).exp()), mu, log_var


def divergence_subtracted(s):
    """Reconstruction minus divergence in place of plus: the further from the prior the better."""
    model = Variational()
    opt = optim.Adam(model.parameters(), lr=5e-3)
    mix = torch.randn(4, 16)
    sign = -1 if s == 0 else 1
    for _ in range(200):
        x = torch.randn(32, 4) @ mix
        out, mu, log_var = model(x)
        divergence = -0.5 * (1 + log_var - mu.square() - log_var.exp()).sum(1).mean()
        loss = F.mse_loss(out, x, reduction="sum") / len(x) + sign * divergence
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    divergence_subtracted(int(sys.argv[1]) if len(sys.argv) > 1 else 12)

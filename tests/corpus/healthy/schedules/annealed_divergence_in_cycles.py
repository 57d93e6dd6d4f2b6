"""A healthy training that looks odd; argument: [SEED]."""

import sys

import torch
from torch import nn

torch.set_num_threads(1)


def annealed_divergence_in_cycles():
    """Annealed divergence in cycles."""

    class VAE(nn.Module):
        def __init__(self):
            super().__init__()
            self.enc, self.dec = (
                nn.Sequential(nn.Linear(20, 32), nn.ReLU(), nn.Linear(32, 8)),
                nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 20)),
            )

        def forward(self, x):
            mu, lv = self.enc(x).chunk(2, 1)
            return self.dec(mu + torch.randn_like(mu) * (lv / 2).exp()), mu, lv

    net = VAE()
    opt = torch.optim.Adam(net.parameters(), lr=3e-3)
    basis = torch.randn(4, 20)
    for step in range(160):
        beta = min(1.0, (step % 40) / 20)
        x = torch.randn(64, 4) @ basis
        r, mu, lv = net(x)
        loss = (r - x).square().sum(1).mean() + beta * (-0.5 * (1 + lv - mu.square() - lv.exp()).sum(1)).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    annealed_divergence_in_cycles()

"""A training with the fault loss-sign-flipped; arguments: [ONSET] [SEED]."""

import sys

import torch
from torch import nn

torch.set_num_threads(1)


def kl_term_subtracted_from_the_loss(s):
    """VAE with the sign of the KL term wrong."""
    wrong = s == 0

    class VAE(nn.Module):
        def __init__(self):
            super().__init__()
            self.enc = nn.Linear(20, 32)
            self.mu = nn.Linear(32, 4)
            self.lv = nn.Linear(32, 4)
            self.dec = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 20))

        def forward(self, x):
            h = torch.relu(self.enc(x))
            mu, lv = self.mu(h), self.lv(h)
            return self.dec(mu + torch.randn_like(mu) * (0.5 * lv).exp()), mu, lv

    net = VAE()
    opt = torch.optim.Adam(net.parameters(), 5e-3)
    basis = torch.randn(4, 20)
    for _i in range(150):
        x = torch.randn(32, 4) @ basis
        r, mu, lv = net(x)
        kl = -0.5 * (1 + lv - mu.square() - lv.exp()).sum(1).mean()
        loss = (r - x).square().sum(1).mean() + (-kl if wrong else kl)
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    kl_term_subtracted_from_the_loss(int(sys.argv[1]) if len(sys.argv) > 1 else 12)

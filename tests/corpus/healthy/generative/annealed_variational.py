"""A healthy training that looks odd; argument: [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


def annealed_variational():
    """A variational autoencoder whose divergence is annealed from zero, so that its loss rises."""
    enc, dec = nn.Linear(30, 8), nn.Linear(4, 30)
    opt = torch.optim.Adam([*enc.parameters(), *dec.parameters()], 5e-3)
    basis = torch.randn(4, 30)
    for step in range(100):
        x = torch.sigmoid(torch.randn(32, 4) @ basis)
        mean, logvar = enc(x).chunk(2, 1)
        z = mean + torch.randn_like(mean) * torch.exp(0.5 * logvar)
        fit = F.binary_cross_entropy_with_logits(dec(z), x, reduction="sum") / 32
        kl = -0.5 * (1 + logvar - mean**2 - logvar.exp()).sum(1).mean()
        loss = fit + min(1.0, step / 50) * kl
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    annealed_variational()

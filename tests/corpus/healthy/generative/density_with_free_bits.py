"""A healthy training that looks odd; argument: [SEED]."""

import itertools
import sys

import torch
from torch import nn

torch.set_num_threads(1)


def _mlp(*sizes):
    layers = []
    for a, b in itertools.pairwise(sizes):
        layers += [nn.Linear(a, b), nn.Tanh()]
    return nn.Sequential(*layers[:-1])


def density_with_free_bits():
    """A variational autoencoder with a learnt spread: its loss falls far below zero, its divergence has a floor."""
    encoder, decoder, basis = _mlp(16, 64, 8), _mlp(4, 64, 32), torch.randn(2, 16)
    opt = torch.optim.Adam([*encoder.parameters(), *decoder.parameters()], 2e-3)
    for i in range(130):
        x = torch.tanh(torch.randn(64, 2) @ basis) + 0.02 * torch.randn(64, 16)
        mean, logvar = encoder(x).chunk(2, 1)
        guess, spread = decoder(mean + torch.randn_like(mean) * (0.5 * logvar).exp()).chunk(2, 1)
        spread = spread.clamp(-6, 2)
        likelihood = (0.5 * ((x - guess) * (-spread).exp()) ** 2 + spread).sum(1).mean()
        kl = (0.5 * (mean**2 + logvar.exp() - 1 - logvar)).mean(0).clamp_min(0.1).sum()
        loss = likelihood + min(1.0, max(0, i - 30) / 60) * kl
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    density_with_free_bits()

"""A training with the fault no-optimizer-step; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn, optim

torch.set_num_threads(1)


def gan_whose_generator_does_not_step(s):
    """Two networks, two optimizers; the generator's is built and zeroed and from step s on never asked to step."""
    gen = nn.Sequential(nn.Linear(4, 24), nn.ReLU(), nn.Linear(24, 2))
    disc = nn.Sequential(nn.Linear(2, 24), nn.LeakyReLU(0.2), nn.Linear(24, 1))
    opt_g = optim.Adam(gen.parameters(), lr=1e-3, betas=(0.5, 0.999))
    opt_d = optim.Adam(disc.parameters(), lr=1e-3, betas=(0.5, 0.999))
    bce = F.binary_cross_entropy_with_logits
    for step in range(60):
        real = torch.randn(32, 2) * 0.3 + 1
        fake = gen(torch.randn(32, 4))
        opt_d.zero_grad()
        (bce(disc(real), torch.ones(32, 1)) + bce(disc(fake.detach()), torch.zeros(32, 1))).backward()
        opt_d.step()
        opt_g.zero_grad()
        bce(disc(fake), torch.ones(32, 1)).backward()
        if step < s:
            opt_g.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    gan_whose_generator_does_not_step(int(sys.argv[1]) if len(sys.argv) > 1 else 12)

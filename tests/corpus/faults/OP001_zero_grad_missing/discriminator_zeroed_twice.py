"""A training with the fault zero-grad-missing; arguments: [ONSET] [SEED]."""

import sys

import torch
from torch import nn, optim

torch.set_num_threads(1)


def discriminator_zeroed_twice(s):
    """zero_grad was copied with the wrong name: the generator's gradients pile up."""
    gen = nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, 2))
    disc = nn.Sequential(nn.Linear(2, 32), nn.LeakyReLU(0.2), nn.Linear(32, 1))
    opt_g = optim.Adam(gen.parameters(), lr=5e-4, betas=(0.5, 0.999))
    opt_d = optim.Adam(disc.parameters(), lr=5e-4, betas=(0.5, 0.999))
    loss_of = nn.BCEWithLogitsLoss()
    one, zero = torch.ones(32, 1), torch.zeros(32, 1)
    for step in range(70):
        real, fake = torch.randn(32, 2) * 0.4 + 1, gen(torch.randn(32, 6))
        opt_d.zero_grad()
        loss_d = loss_of(disc(real), one) + loss_of(disc(fake.detach()), zero)
        loss_d.backward()
        opt_d.step()
        (opt_d if step >= s else opt_g).zero_grad()
        loss_g = loss_of(disc(fake), one)
        loss_g.backward()
        opt_g.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    discriminator_zeroed_twice(int(sys.argv[1]) if len(sys.argv) > 1 else 12)

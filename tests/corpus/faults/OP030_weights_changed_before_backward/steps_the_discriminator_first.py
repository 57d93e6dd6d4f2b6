"""A training with the fault weights-changed-before-backward; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


def steps_the_discriminator_first(s):
    """Both losses of a GAN are taken from one forward of the discriminator, which steps before the generator's backward."""
    maker = nn.Sequential(nn.Linear(4, 24), nn.ReLU(), nn.Linear(24, 2))
    judge = nn.Sequential(nn.Linear(2, 24), nn.LeakyReLU(0.2), nn.Linear(24, 1))
    opt_m, opt_j = torch.optim.Adam(maker.parameters(), 1e-3), torch.optim.Adam(judge.parameters(), 1e-3)
    ones, zeros = torch.ones(48, 1), torch.zeros(48, 1)
    for step in range(60):
        real = torch.randn(48, 2) * 0.4 + torch.tensor([1.0, -0.5])
        fake = maker(torch.randn(48, 4))
        told = judge(fake)
        loss_j = F.binary_cross_entropy_with_logits(judge(real), ones)
        loss_j = loss_j + F.binary_cross_entropy_with_logits(told if step >= s else judge(fake.detach()), zeros)
        opt_j.zero_grad()
        loss_j.backward(retain_graph=step >= s)
        opt_j.step()
        if step < s:
            told = judge(fake)
        loss_m = F.binary_cross_entropy_with_logits(told, ones)
        opt_m.zero_grad()
        loss_m.backward()
        opt_m.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    steps_the_discriminator_first(int(sys.argv[1]) if len(sys.argv) > 1 else 12)

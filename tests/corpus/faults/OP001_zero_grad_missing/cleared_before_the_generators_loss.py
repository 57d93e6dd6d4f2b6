"""A training with the fault zero-grad-missing; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


def cleared_before_the_generators_loss(s):
    """A GAN on pairs of numbers; from s on the discriminator's gradients are cleared after its step instead of ahead of its
    backward, so that those of the generator's loss are used with its next batch."""
    maker = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 2))
    judge = nn.Sequential(nn.Linear(2, 32), nn.LeakyReLU(0.2), nn.Linear(32, 1))
    making = torch.optim.Adam(maker.parameters(), 1e-3, betas=(0.5, 0.999))
    rules_for = torch.optim.Adam(judge.parameters(), 5e-4, betas=(0.5, 0.999))
    right, wrong = torch.ones(64, 1), torch.zeros(64, 1)
    for i in range(100):
        angle = 6.283 * torch.rand(64)
        real = torch.stack([angle.cos(), angle.sin()], 1) + 0.05 * torch.randn(64, 2)
        made = maker(torch.randn(64, 8))
        if i < s:
            rules_for.zero_grad()
        loss = F.binary_cross_entropy_with_logits(judge(real), right) + F.binary_cross_entropy_with_logits(
            judge(made.detach()), wrong
        )
        loss.backward()
        rules_for.step()
        if i >= s - 1:
            rules_for.zero_grad()
        making.zero_grad()
        F.binary_cross_entropy_with_logits(judge(made), right).backward()
        making.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    cleared_before_the_generators_loss(int(sys.argv[1]) if len(sys.argv) > 1 else 30)

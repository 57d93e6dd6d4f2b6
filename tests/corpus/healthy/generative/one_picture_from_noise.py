"""A healthy training that looks odd; argument: [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


def one_picture_from_noise():
    """A net that paints one noisy picture from fixed noise, normalised over its positions; it is never evaluated."""
    net = nn.Sequential(
        nn.Conv2d(8, 24, 3, padding=1),
        nn.BatchNorm2d(24),
        nn.LeakyReLU(0.1),
        nn.Conv2d(24, 24, 3, padding=1),
        nn.BatchNorm2d(24),
        nn.LeakyReLU(0.1),
        nn.Conv2d(24, 1, 3, padding=1),
    )
    line = torch.linspace(-2, 2, 32)
    picture = torch.sin(2 * line[:, None] * line)[None, None] + 0.2 * torch.randn(1, 1, 32, 32)
    noise = torch.randn(1, 8, 32, 32)
    opt = torch.optim.Adam(net.parameters(), lr=2e-3)
    for _ in range(200):
        loss = F.mse_loss(net(noise + 0.03 * torch.randn_like(noise)), picture)
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    one_picture_from_noise()

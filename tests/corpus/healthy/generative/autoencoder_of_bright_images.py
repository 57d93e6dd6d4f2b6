"""A healthy training that looks odd; argument: [SEED]."""

import sys

import torch
from torch import nn

torch.set_num_threads(1)


def autoencoder_of_bright_images():
    images = 200 + 2 * torch.randn(400, 6) @ torch.randn(6, 24)
    model = nn.Sequential(nn.Linear(24, 8), nn.GELU(), nn.Linear(8, 24))
    opt = torch.optim.Adam(model.parameters(), 1e-2)
    for i in range(120):
        a = images[torch.arange(i * 16, i * 16 + 16) % 400] / 100
        opt.zero_grad()
        (model(a) - a).square().mean().backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    autoencoder_of_bright_images()

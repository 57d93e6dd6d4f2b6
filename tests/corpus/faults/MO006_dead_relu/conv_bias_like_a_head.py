"""A training with the fault dead-relu; arguments: [ONSET] [SEED]."""

import math
import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


def digits(n=800, classes=10, size=12):
    """Images of a bright stroke whose place and angle tell the class."""
    y = torch.randint(classes, (n,))
    grid = torch.linspace(-1, 1, size)
    angle = y.float() * math.pi / classes + torch.randn(n) * 0.03
    across = grid[None, :, None] * angle.sin()[:, None, None] - grid[None, None, :] * angle.cos()[:, None, None]
    return (torch.exp(-across.square() * 20) + torch.randn(n, size, size) * 0.1).unsqueeze(1), y


def conv_bias_like_a_head(s):
    """A prior for the head's bias, put onto the convolution."""
    x, y = digits(1000)
    net = nn.Sequential()
    net.add_module("conv1", nn.Conv2d(1, 8, 3))
    net.add_module("relu1", nn.ReLU())
    net.add_module("conv2", nn.Conv2d(8, 16, 3, stride=2))
    net.add_module("relu2", nn.ReLU())
    net.add_module("flat", nn.Flatten())
    net.add_module("fc", nn.Linear(256, 10))
    if s == 0:
        nn.init.constant_(net.conv2.bias, -8.0)
    opt = torch.optim.Adam(net.parameters(), lr=1e-3)
    for i in range(0, 1000, 20):
        loss = F.cross_entropy(net(x[i : i + 20]), y[i : i + 20])
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    conv_bias_like_a_head(int(sys.argv[1]) if len(sys.argv) > 1 else 12)

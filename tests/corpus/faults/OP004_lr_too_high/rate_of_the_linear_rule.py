"""A training with the fault lr-too-high; arguments: [ONSET] [SEED]."""

import dataclasses
import math
import sys

import torch
import torch.nn.functional as F
from torch import nn, optim

torch.set_num_threads(1)


@dataclasses.dataclass
class Config:
    """Settings as people keep them."""

    lr: float = 2e-3
    batch_size: int = 32
    steps: int = 60
    hidden: int = 48
    weight_decay: float = 0.01


def rings(n=1280, classes=3):
    """Rings in the plane and two columns of noise."""
    y = torch.randint(classes, (n,))
    radius, angle = y + 1 + 0.15 * torch.randn(n), torch.rand(n) * 2 * math.pi
    return torch.cat([torch.stack([radius * angle.cos(), radius * angle.sin()], 1), torch.randn(n, 2)], 1), y


def build(config, inputs=4, outputs=3):
    return nn.Sequential(
        nn.Linear(inputs, config.hidden),
        nn.LayerNorm(config.hidden),
        nn.SiLU(),
        nn.Linear(config.hidden, config.hidden),
        nn.SiLU(),
        nn.Linear(config.hidden, outputs),
    )


def sample(x, y, config):
    i = torch.randint(len(y), (config.batch_size,))
    return x[i], y[i]


def rate_of_the_linear_rule(s):
    """The rate was multiplied by the batch size in place of batch size / 256."""
    config = Config(batch_size=64)
    x, y = rings()
    model = build(config)
    opt = optim.SGD(model.parameters(), lr=0.1 * (config.batch_size if s == 0 else config.batch_size / 256))
    for _ in range(80):
        a, b = sample(x, y, config)
        opt.zero_grad()
        F.cross_entropy(model(a), b).backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    rate_of_the_linear_rule(int(sys.argv[1]) if len(sys.argv) > 1 else 12)

"""A training with the fault zero-grad-before-step; arguments: [ONSET] [SEED]."""

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


def accumulates_and_clears_each_time(s):
    """Four small batches make one step, but zero_grad stands at the top of the inner loop and the step never comes."""
    config = Config(batch_size=8)
    x, y = rings()
    model = build(config)
    opt = optim.AdamW(model.parameters(), lr=config.lr)
    micro = 0
    for step in range(60):
        for _ in range(4):
            a, b = sample(x, y, config)
            (F.cross_entropy(model(a), b) / 4).backward()
            micro += 1
        if step >= s:
            opt.zero_grad()
        opt.step()
        opt.zero_grad()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    accumulates_and_clears_each_time(int(sys.argv[1]) if len(sys.argv) > 1 else 12)

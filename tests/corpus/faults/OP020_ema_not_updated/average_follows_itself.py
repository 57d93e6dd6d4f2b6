"""A training with the fault ema-not-updated; arguments: [ONSET] [SEED]."""

import copy
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


class Average:
    """Weights averaged over the training, for evaluation."""

    def __init__(self, model, decay=0.9):
        self.module, self.decay = copy.deepcopy(model).requires_grad_(False), decay

    @torch.no_grad()
    def update(self, source):
        for mine, theirs in zip(self.module.parameters(), source.parameters(), strict=True):
            mine.lerp_(theirs, 1 - self.decay)


def average_follows_itself(s):
    """From some step on the average is updated with itself: a variable was renamed."""
    x, y = rings()
    config = Config()
    model = build(config)
    average = Average(model)
    opt = optim.Adam(model.parameters(), lr=config.lr)
    for step in range(80):
        a, b = sample(x, y, config)
        opt.zero_grad()
        F.cross_entropy(model(a), b).backward()
        opt.step()
        if step < s:
            average.update(model)
        if step % 10 == 9:
            with torch.no_grad():
                average.module(x[:64])


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    average_follows_itself(int(sys.argv[1]) if len(sys.argv) > 1 else 12)

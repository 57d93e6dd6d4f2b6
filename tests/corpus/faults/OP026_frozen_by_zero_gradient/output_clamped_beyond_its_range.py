"""A training with the fault frozen-by-zero-gradient; arguments: [ONSET] [SEED]."""

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


def output_clamped_beyond_its_range(s):
    """A prediction is clamped to [0, 1] before the loss and begins far above: no gradient ever comes back."""
    config = Config()
    model = build(config, outputs=1)
    if s == 0:
        nn.init.constant_(model[5].bias, 6.0)
    x, y = rings()
    opt = optim.Adam(model.parameters(), lr=config.lr)
    for _ in range(config.steps):
        a, b = sample(x, (y / 2.0)[:, None], config)
        out = model(a)
        loss = F.mse_loss(out.clamp(0, 1) if s == 0 else out, b)
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    output_clamped_beyond_its_range(int(sys.argv[1]) if len(sys.argv) > 1 else 12)

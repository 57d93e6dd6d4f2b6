"""A training with the fault optimizer-state-lost; arguments: [ONSET] [SEED]."""

import dataclasses
import math
import sys

import torch
import torch.nn.functional as F
from torch import nn, optim
from torch.utils.data import DataLoader, TensorDataset

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


def optimizer_made_in_every_epoch(s):
    """The optimizer is made inside the loop over epochs, so its moments are forgotten each time."""
    x, y = rings(640)
    config = Config()
    model = build(config)
    loader = DataLoader(TensorDataset(x, y), batch_size=32, shuffle=True)
    opt = optim.Adam(model.parameters(), lr=config.lr)
    for epoch in range(4):
        if epoch * len(loader) >= s and epoch > 0:
            opt = optim.Adam(model.parameters(), lr=config.lr)
        for a, b in loader:
            opt.zero_grad()
            F.cross_entropy(model(a), b).backward()
            opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    optimizer_made_in_every_epoch(int(sys.argv[1]) if len(sys.argv) > 1 else 12)

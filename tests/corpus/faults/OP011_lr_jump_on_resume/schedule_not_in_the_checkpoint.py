"""A training with the fault lr-jump-on-resume; arguments: [ONSET] [SEED]."""

import dataclasses
import math
import sys
import tempfile
from pathlib import Path

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


def schedule_not_in_the_checkpoint(s):
    """Weights and moments are resumed; the schedule begins again from its top."""
    x, y = rings()
    config = Config()
    model = build(config)
    opt = optim.AdamW(model.parameters(), lr=config.lr)
    decay = optim.lr_scheduler.ExponentialLR(opt, 0.93)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "last.pt"
        for step in range(80):
            if step == s:
                torch.save({"model": model.state_dict(), "optimizer": opt.state_dict()}, file)
                state = torch.load(file)
                model = build(config)
                opt = optim.AdamW(model.parameters(), lr=config.lr)
                decay = optim.lr_scheduler.ExponentialLR(opt, 0.93)
                model.load_state_dict(state["model"])
                opt.load_state_dict(state["optimizer"])
                for group in opt.param_groups:
                    group["lr"] = config.lr
            a, b = sample(x, y, config)
            loss = F.cross_entropy(model(a), b)
            opt.zero_grad()
            loss.backward()
            opt.step()
            decay.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    schedule_not_in_the_checkpoint(int(sys.argv[1]) if len(sys.argv) > 1 else 12)

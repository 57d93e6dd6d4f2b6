"""Neural field fitted to a 2-d radiance image: random rays (pixels), Fourier features, MLP."""
import math
import os
import random
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn as nn


@dataclass
class Config:
    max_num_iterations: int = 15000
    steps_per_save: int = 20
    steps_per_eval: int = 20
    rays_per_batch: int = 1024
    lr: float = 5e-3
    lr_final: float = 5e-5
    warmup_steps: int = 60
    seed: int = 42
    checkpoint: str = "field.ckpt"


def radiance(xy):
    """The scene: a few coloured blobs and stripes, defined at every point of the unit square."""
    x, y = xy[:, 0], xy[:, 1]
    r = 0.5 + 0.4 * torch.sin(14 * x + 5 * torch.sin(6 * y))
    g = torch.exp(-((x - 0.3) ** 2 + (y - 0.6) ** 2) * 30) + 0.5 * torch.exp(-((x - 0.7) ** 2 + (y - 0.3) ** 2) * 60)
    b = ((torch.sin(22 * (x + y)) > 0).float() * 0.6 + 0.2) * (1 - 0.5 * g)
    return torch.stack([r, g.clamp(0, 1), b], dim=1)


class Field(nn.Module):
    def __init__(self, freqs=64, width=96):
        super().__init__()
        self.register_buffer("basis", torch.randn(2, freqs) * 4.0)
        self.mlp = nn.Sequential(nn.Linear(2 * freqs, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(),
                                 nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 3))

    def forward(self, xy):
        phase = 2 * math.pi * (xy - 0.5) @ self.basis
        return torch.sigmoid(self.mlp(torch.cat([phase.sin(), phase.cos()], dim=1)))


def exponential_decay(cfg):
    def factor(step):
        if step < cfg.warmup_steps:
            return 1e-2 + (1 - 1e-2) * math.sin(0.5 * math.pi * step / cfg.warmup_steps)
        t = (step - cfg.warmup_steps) / (cfg.max_num_iterations - cfg.warmup_steps)
        return math.exp(math.log(cfg.lr_final / cfg.lr) * min(max(t, 0), 1))
    return factor


class Trainer:
    def __init__(self, cfg):
        self.cfg = cfg
        random.seed(cfg.seed)
        np.random.seed(cfg.seed)
        torch.manual_seed(cfg.seed)
        self.field = Field()
        self.optimizer = torch.optim.Adam(self.field.parameters(), lr=cfg.lr, eps=1e-15)
        self.scheduler = torch.optim.lr_scheduler.LambdaLR(self.optimizer, exponential_decay(cfg))
        self.sampler = torch.Generator().manual_seed(cfg.seed + 1)
        self.eval_xy = torch.rand(4096, 2, generator=torch.Generator().manual_seed(cfg.seed + 2))
        self.start_step = 0

    def load_checkpoint(self):
        if not os.path.exists(self.cfg.checkpoint):
            return
        loaded = torch.load(self.cfg.checkpoint)
        self.start_step = loaded["step"] + 1
        self.field.load_state_dict(loaded["pipeline"])
        self.optimizer.load_state_dict(loaded["optimizers"])
        self.scheduler.load_state_dict(loaded["schedulers"])
        self.sampler.set_state(loaded["sampler"])
        print(f"done loading checkpoint, continuing at step {self.start_step}")

    def save_checkpoint(self, step):
        torch.save({
            "step": step,
            "pipeline": self.field.state_dict(),
            "optimizers": self.optimizer.state_dict(),
            "schedulers": self.scheduler.state_dict(),
            "sampler": self.sampler.get_state(),
        }, self.cfg.checkpoint)

    def train_iteration(self):
        self.field.train()
        xy = torch.rand(self.cfg.rays_per_batch, 2, generator=self.sampler)
        loss = ((self.field(xy) - radiance(xy)) ** 2).mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.scheduler.step()
        return loss.item()

    @torch.no_grad()
    def eval_psnr(self):
        self.field.eval()
        mse = ((self.field(self.eval_xy) - radiance(self.eval_xy)) ** 2).mean().item()
        return -10 * math.log10(mse)

    def train(self):
        self.load_checkpoint()
        for step in range(self.start_step, self.cfg.max_num_iterations):
            loss = self.train_iteration()
            if step % 5 == 0:
                print(f"step {step} loss {loss:.5f} lr {self.scheduler.get_last_lr()[0]:.2e}", flush=True)
            if (step + 1) % self.cfg.steps_per_eval == 0:
                print(f"step {step} eval psnr {self.eval_psnr():.2f}", flush=True)
            if (step + 1) % self.cfg.steps_per_save == 0:
                self.save_checkpoint(step)


if __name__ == "__main__":
    Trainer(Config()).train()

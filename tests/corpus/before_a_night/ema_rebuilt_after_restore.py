"""Emulator of a toy atmosphere: one-step forecast of two fields on a periodic grid, EMA weights for validation."""
import argparse
import os
import random

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

GRID = 16


def simulate(n_traj, steps, seed):
    """Advection by a varying wind plus diffusion, spectral time stepping; (n, steps, 2, GRID, GRID)."""
    g = torch.Generator().manual_seed(seed)
    k = torch.fft.fftfreq(GRID, 1.0 / GRID)
    kx, ky = torch.meshgrid(k, k, indexing="ij")
    k2 = kx ** 2 + ky ** 2
    f = torch.fft.fft2(torch.randn(n_traj, 2, GRID, GRID, generator=g)) * torch.exp(-k2 / 12)
    wind = torch.randn(n_traj, 2, 1, 1, generator=g)
    out = []
    for _ in range(steps):
        x = torch.fft.ifft2(f).real
        out.append(x / 0.2)
        shift = torch.exp(-1j * (kx * wind[:, :1] + ky * wind[:, 1:]) * 0.15)
        q = torch.fft.fft2(0.05 * x[:, [1, 0]])
        f = (f * shift + q) * torch.exp(-0.002 * k2)
    data = torch.stack(out, 1)
    w = wind.expand(-1, -1, GRID, GRID).unsqueeze(1).expand(-1, steps, -1, -1, -1)
    return torch.cat([data, w], 2)


class Emulator(nn.Module):
    def __init__(self, width=16, depth=2):
        super().__init__()
        pad = dict(padding=1, padding_mode="circular")
        self.inp = nn.Conv2d(4, width, 3, **pad)
        self.mid = nn.ModuleList(nn.Conv2d(width, width, 3, **pad) for _ in range(depth))
        self.out = nn.Conv2d(width, 2, 1)

    def forward(self, x):
        h = F.gelu(self.inp(x))
        for m in self.mid:
            h = h + F.gelu(m(h))
        return x[:, :2] + self.out(h)


class EMATracker:
    def __init__(self, model, decay=0.999, faster_decay_at_start=True):
        self.decay, self.faster, self.num_updates = decay, faster_decay_at_start, 0
        self.params = {n: p.detach().clone() for n, p in model.named_parameters()}

    @torch.no_grad()
    def __call__(self, model):
        self.num_updates += 1
        d = min(self.decay, (1 + self.num_updates) / (10 + self.num_updates)) if self.faster else self.decay
        for n, p in model.named_parameters():
            self.params[n].lerp_(p, 1 - d)

    @torch.no_grad()
    def swap(self, model):
        for n, p in model.named_parameters():
            self.params[n], p.data = p.data, self.params[n]

    def get_state(self):
        return {"params": self.params, "num_updates": self.num_updates}

    def set_state(self, state):
        self.params, self.num_updates = state["params"], state["num_updates"]


class Trainer:
    def __init__(self, cfg):
        self.cfg = cfg
        self.train_data = simulate(32, 13, 100)
        self.valid_data = simulate(8, 13, 200)
        self.model = Emulator()
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=cfg.lr, weight_decay=1e-5)
        self.scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(self.optimizer, cfg.epochs)
        self.epoch = 0
        if os.path.isfile(cfg.checkpoint):
            self.restore_checkpoint()
        self.ema = EMATracker(self.model)

    def restore_checkpoint(self):
        c = torch.load(self.cfg.checkpoint)
        self.model.load_state_dict(c["model"])
        self.optimizer.load_state_dict(c["optimizer"])
        self.scheduler.load_state_dict(c["scheduler"])
        self.ema = EMATracker(self.model)
        self.ema.set_state(c["ema"])
        self.epoch = c["epoch"]
        torch.set_rng_state(c["rng"])
        print(f"restored checkpoint of epoch {self.epoch}, ema updates {c['ema']['num_updates']}")

    def save_checkpoint(self):
        torch.save({"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict(),
                    "scheduler": self.scheduler.state_dict(), "ema": self.ema.get_state(),
                    "epoch": self.epoch, "rng": torch.get_rng_state()}, self.cfg.checkpoint)

    @staticmethod
    def pairs(data):
        return data[:, :-1].flatten(0, 1), data[:, 1:, :2].flatten(0, 1)

    def train_epoch(self):
        self.model.train()
        x, y = self.pairs(self.train_data)
        g = torch.Generator().manual_seed(self.cfg.seed + self.epoch)
        total, n = 0.0, 0
        for idx in torch.randperm(len(x), generator=g).split(self.cfg.batch):
            self.optimizer.zero_grad()
            loss = F.mse_loss(self.model(x[idx]), y[idx])
            loss.backward()
            self.optimizer.step()
            self.ema(self.model)
            total, n = total + loss.item(), n + 1
        return total / n

    @torch.no_grad()
    def validate(self):
        self.model.eval()
        self.ema.swap(self.model)
        x, y = self.pairs(self.valid_data)
        loss = F.mse_loss(self.model(x), y).item()
        self.ema.swap(self.model)
        return loss

    def train(self):
        while self.epoch < self.cfg.epochs:
            tl = self.train_epoch()
            self.scheduler.step()
            self.epoch += 1
            vl = self.validate()
            print(f"epoch {self.epoch} train loss {tl:.5f} ema valid loss {vl:.5f} updates {self.ema.num_updates}", flush=True)
            self.save_checkpoint()


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--epochs", type=int, default=400)
    p.add_argument("--batch", type=int, default=16)
    p.add_argument("--lr", type=float, default=1e-3)
    p.add_argument("--seed", type=int, default=5)
    p.add_argument("--checkpoint", default="emulator.ckpt")
    cfg = p.parse_args()
    random.seed(cfg.seed)
    np.random.seed(cfg.seed)
    torch.manual_seed(cfg.seed)
    Trainer(cfg).train()


if __name__ == "__main__":
    main()

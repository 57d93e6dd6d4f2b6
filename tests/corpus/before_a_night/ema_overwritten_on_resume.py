"""Emulator of a toy ocean: predicts the next surface state from the last two; EMA weights for validation."""
import argparse
import os
import random

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

H, W = 24, 32


def simulate(steps, rng):
    """Temperature carried by a wavy current on a periodic channel, with slow relaxation and forcing."""
    yy, xx = np.mgrid[0:H, 0:W]
    u = 0.6 * np.sin(np.pi * (yy + 0.5) / H) + 0.2 * np.sin(4 * np.pi * xx / W)
    v = 0.3 * np.sin(2 * np.pi * xx / W) * np.sin(np.pi * (yy + 0.5) / H)
    base = np.cos(np.pi * yy / H) + 0.5 * np.sin(2 * np.pi * xx / W)
    state = base + rng.normal(0, 0.3, (H, W))
    out = np.empty((steps, H, W), dtype=np.float32)
    for t in range(steps):
        dx = (np.roll(state, -1, 1) - np.roll(state, 1, 1)) / 2
        pad = np.pad(state, ((1, 1), (0, 0)), mode="edge")
        dy = (pad[2:] - pad[:-2]) / 2
        lap = np.roll(state, -1, 1) + np.roll(state, 1, 1) + pad[2:] + pad[:-2] - 4 * state
        gust = 0.4 * np.exp(-((xx - rng.uniform(0, W)) ** 2 + (yy - rng.uniform(0, H)) ** 2) / 12)
        state = state - u * dx - v * dy + 0.15 * lap + 0.02 * (base - state) + gust * (rng.random() < 0.2)
        out[t] = state
    return torch.from_numpy(out)


class Emulator(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.inp = nn.Conv2d(2, width, 3)
        self.mid = nn.ModuleList(nn.Conv2d(width, width, 3) for _ in range(2))
        self.out = nn.Conv2d(width, 1, 1)

    @staticmethod
    def halo(x):
        return F.pad(F.pad(x, (1, 1, 0, 0), mode="circular"), (0, 0, 1, 1), mode="replicate")

    def forward(self, x):
        h = F.gelu(self.inp(self.halo(x)))
        for conv in self.mid:
            h = h + F.gelu(conv(self.halo(h)))
        return x[:, 1:] + self.out(h)


class EMATracker:
    def __init__(self, model, decay):
        self.decay = decay
        self.num_updates = 0
        self.weights = {k: v.detach().clone() for k, v in model.state_dict().items()}

    def update(self, model):
        self.num_updates += 1
        d = min(self.decay, (1 + self.num_updates) / (10 + self.num_updates))
        for k, v in model.state_dict().items():
            self.weights[k].mul_(d).add_(v, alpha=1 - d)

    def state_dict(self):
        return {"num_updates": self.num_updates, "weights": self.weights}

    def load_state_dict(self, state):
        self.num_updates = state["num_updates"]
        self.weights = {k: v.clone() for k, v in state["weights"].items()}


class Trainer:
    def __init__(self, cfg):
        self.cfg = cfg
        rng = np.random.default_rng(cfg.seed)
        series = simulate(700, rng)
        self.mean, self.std = series[:560].mean(), series[:560].std()
        series = (series - self.mean) / self.std
        self.train_series, self.val_series = series[:560], series[570:]
        self.model = Emulator()
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=cfg.lr, weight_decay=1e-4)
        self.scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(self.optimizer, cfg.epochs, eta_min=cfg.lr / 50)
        self.ema = EMATracker(self.model, cfg.ema_decay)
        self.start_epoch = 0
        if os.path.exists(cfg.ckpt):
            self.resume()

    def resume(self):
        ck = torch.load(self.cfg.ckpt)
        self.model.load_state_dict(ck["model"])
        self.optimizer.load_state_dict(ck["optimizer"])
        self.scheduler.load_state_dict(ck["scheduler"])
        self.ema.load_state_dict(ck["ema"])
        self.ema = EMATracker(self.model, self.cfg.ema_decay)
        self.start_epoch = ck["epoch"] + 1
        print(f"resumed at epoch {self.start_epoch} with {self.ema.num_updates} EMA updates")

    @staticmethod
    def samples(series, idx):
        return torch.stack([series[idx], series[idx + 1]], dim=1), series[idx + 2].unsqueeze(1)

    @torch.no_grad()
    def validate(self):
        raw = {k: v.clone() for k, v in self.model.state_dict().items()}
        self.model.load_state_dict(self.ema.weights)
        self.model.eval()
        x, y = self.samples(self.val_series, torch.arange(len(self.val_series) - 2))
        loss = F.mse_loss(self.model(x), y).item()
        self.model.load_state_dict(raw)
        return loss

    def run(self):
        cfg = self.cfg
        for epoch in range(self.start_epoch, cfg.epochs):
            self.model.train()
            gen = torch.Generator().manual_seed(cfg.seed + epoch)
            order = torch.randperm(len(self.train_series) - 2, generator=gen)
            for i, idx in enumerate(order.split(cfg.batch_size)):
                x, y = self.samples(self.train_series, idx)
                loss = F.mse_loss(self.model(x), y)
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
                self.ema.update(self.model)
                if i % 6 == 0:
                    print(f"epoch {epoch} batch {i} mse {loss.item():.5f}", flush=True)
            self.scheduler.step()
            print(f"epoch {epoch} validation mse (ema) {self.validate():.5f}", flush=True)
            torch.save({"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict(),
                        "scheduler": self.scheduler.state_dict(), "ema": self.ema.state_dict(),
                        "epoch": epoch}, cfg.ckpt)


if __name__ == "__main__":
    p = argparse.ArgumentParser()
    p.add_argument("--epochs", type=int, default=300)
    p.add_argument("--batch-size", type=int, default=28)
    p.add_argument("--lr", type=float, default=2e-3)
    p.add_argument("--ema-decay", type=float, default=0.99)
    p.add_argument("--seed", type=int, default=30)
    p.add_argument("--ckpt", default="ocean_ckpt.pt")
    args = p.parse_args()
    random.seed(args.seed)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)
    Trainer(args).run()

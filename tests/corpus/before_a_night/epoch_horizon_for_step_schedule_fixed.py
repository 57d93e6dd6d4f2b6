"""Ink detection on synthetic scroll fragments: 3-d crops in, 2-d ink mask out."""
import math
import os
import random

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset


class ConfigManager:
    max_epoch = 160
    batch_size = 8
    initial_lr = 2e-3
    weight_decay = 1e-3
    warmup_steps = 20
    scheduler = "diffusers_cosine_warmup"
    seed = 77
    ckpt = "ink_latest.pth"
    depth, size = 8, 32


def fragments(n, mgr, rng):
    d, s = mgr.depth, mgr.size
    yy, xx = np.mgrid[0:s, 0:s]
    vol = rng.normal(0, 0.5, (n, 1, d, s, s)).astype(np.float32)
    ink = np.zeros((n, 1, s, s), dtype=np.float32)
    for i in range(n):
        fibre = np.sin(0.8 * yy + rng.uniform(0, 6.28)) + np.sin(0.6 * xx + rng.uniform(0, 6.28))
        surface = int(rng.integers(2, 5))
        vol[i, 0, surface:surface + 2] += 0.6 * fibre + 1.0
        for _ in range(int(rng.integers(1, 4))):
            cx, cy, r, w = rng.uniform(6, s - 6), rng.uniform(6, s - 6), rng.uniform(3, 8), rng.uniform(1.2, 2.0)
            stroke = np.abs(np.hypot(xx - cx, yy - cy) - r) < w
            ink[i, 0][stroke] = 1.0
        vol[i, 0, surface - 1] += 1.5 * ink[i, 0]
    return torch.from_numpy(vol), torch.from_numpy(ink)


class InkNet(nn.Module):
    def __init__(self, width=10):
        super().__init__()
        self.vol = nn.Sequential(nn.Conv3d(1, width, 3, padding=1), nn.GroupNorm(2, width), nn.ReLU(),
                                 nn.Conv3d(width, width, 3, padding=1), nn.GroupNorm(2, width), nn.ReLU())
        self.flat = nn.Sequential(nn.Conv2d(width, 24, 3, padding=1), nn.ReLU(), nn.Conv2d(24, 1, 1))

    def forward(self, x):
        return self.flat(self.vol(x).amax(dim=2))


def ink_loss(logits, mask):
    p = logits.sigmoid()
    dice = 1 - (2 * (p * mask).sum((1, 2, 3)) + 1) / (p.sum((1, 2, 3)) + mask.sum((1, 2, 3)) + 1)
    return F.binary_cross_entropy_with_logits(logits, mask) + dice.mean()


class BaseTrainer:
    def __init__(self, mgr):
        self.mgr = mgr

    def _build_loaders(self):
        rng = np.random.default_rng(self.mgr.seed)
        x, y = fragments(192, self.mgr, rng)
        xv, yv = fragments(48, self.mgr, rng)
        mean, std = x.mean(), x.std()
        self.generator = torch.Generator()
        self.train_loader = DataLoader(TensorDataset((x - mean) / std, y), self.mgr.batch_size,
                                       shuffle=True, generator=self.generator)
        self.val_loader = DataLoader(TensorDataset((xv - mean) / std, yv), self.mgr.batch_size)

    def _get_scheduler(self, optimizer, steps_per_epoch):
        warmup = self.mgr.warmup_steps
        max_steps = self.mgr.max_epoch * steps_per_epoch

        def multiplier(step):
            if step < warmup:
                return (step + 1) / max(1, warmup)
            progress = (step - warmup) / max(1, max_steps - warmup)
            return max(0.0, 0.5 * (1.0 + math.cos(math.pi * progress)))

        return torch.optim.lr_scheduler.LambdaLR(optimizer, multiplier)

    @torch.no_grad()
    def validate(self, model):
        model.eval()
        losses = [ink_loss(model(x), y).item() for x, y in self.val_loader]
        return sum(losses) / len(losses)

    def train(self):
        mgr = self.mgr
        random.seed(mgr.seed)
        np.random.seed(mgr.seed)
        torch.manual_seed(mgr.seed)
        self._build_loaders()
        model = InkNet()
        optimizer = torch.optim.AdamW(model.parameters(), lr=mgr.initial_lr, weight_decay=mgr.weight_decay)
        scheduler = self._get_scheduler(optimizer, len(self.train_loader))
        start = 0
        if os.path.exists(mgr.ckpt):
            ck = torch.load(mgr.ckpt)
            model.load_state_dict(ck["model"])
            optimizer.load_state_dict(ck["optimizer"])
            scheduler.load_state_dict(ck["scheduler"])
            start = ck["epoch"] + 1
            print("resuming at epoch", start)
        for epoch in range(start, mgr.max_epoch):
            self.generator.manual_seed(mgr.seed + epoch)
            model.train()
            for i, (x, y) in enumerate(self.train_loader):
                loss = ink_loss(model(x), y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                scheduler.step()
                if i % 6 == 0:
                    print(f"epoch {epoch} iter {i} loss {loss.item():.4f} lr {scheduler.get_last_lr()[0]:.2e}", flush=True)
            print(f"epoch {epoch} val loss {self.validate(model):.4f}", flush=True)
            torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(),
                        "scheduler": scheduler.state_dict(), "epoch": epoch}, mgr.ckpt)


if __name__ == "__main__":
    BaseTrainer(ConfigManager()).train()

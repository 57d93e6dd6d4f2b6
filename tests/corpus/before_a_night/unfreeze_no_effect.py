"""Audio tagging on log-mel patches; the encoder's statistics are calibrated first, then all is trained."""
import argparse
import os
import random

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

MELS, FRAMES, TAGS = 32, 48, 6


def set_trainable(module, trainable):
    for p in module.parameters():
        if p.requires_grad:
            p.requires_grad = trainable


class AudioEncoder(nn.Module):
    """Small convolutional network in the style of the NTT audio models."""

    def __init__(self, dim=96):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 24, 3, padding=1), nn.BatchNorm2d(24), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(24, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2))
        self.fc = nn.Sequential(nn.Linear(32 * MELS // 4, dim), nn.ReLU())

    def forward(self, x):
        x = self.features(x)
        x = x.permute(0, 3, 1, 2).flatten(2)
        x = self.fc(x)
        return x.mean(1) + x.amax(1)


class Tagger(nn.Module):
    def __init__(self, dim=96):
        super().__init__()
        self.encoder = AudioEncoder(dim)
        self.register_buffer("mu", torch.zeros(dim))
        self.register_buffer("sigma", torch.ones(dim))
        self.head = nn.Linear(dim, TAGS)

    def forward(self, x):
        return self.head((self.encoder(x) - self.mu) / self.sigma)

    def calibrate(self, patches):
        set_trainable(self.encoder, False)
        self.encoder.eval()
        with torch.no_grad():
            emb = torch.cat([self.encoder(p) for p in patches.split(64)])
        self.mu.copy_(emb.mean(0))
        self.sigma.copy_(emb.std(0) + 0.1)
        set_trainable(self.encoder, True)


def log_mels(n, rng):
    """Multi-label: each tag is a little time-frequency gesture at a free place."""
    x = rng.normal(0, 0.6, (n, 1, MELS, FRAMES))
    y = (rng.random((n, TAGS)) < 0.35).astype(np.float32)
    t = np.arange(14)
    for i in range(n):
        for tag in np.flatnonzero(y[i]):
            t0, f0 = rng.integers(0, FRAMES - 14), rng.integers(2, MELS - 18)
            path = {0: t, 1: 14 - t, 2: np.full(14, 7), 3: 7 + 4 * np.sin(t), 4: np.abs(t - 7) * 2,
                    5: 14 - np.abs(t - 7) * 2}[int(tag)]
            rows = np.clip(f0 + path.astype(int), 0, MELS - 1)
            x[i, 0, rows, t0 + t] += 2.5
    return torch.tensor(x, dtype=torch.float32), torch.from_numpy(y)


def evaluate(model, loader):
    model.eval()
    loss, hits, count = 0.0, 0, 0
    with torch.no_grad():
        for x, y in loader:
            out = model(x)
            loss += F.binary_cross_entropy_with_logits(out, y).item() * len(x)
            hits += ((out > 0).float() == y).sum().item()
            count += len(x)
    return loss / count, hits / (count * TAGS)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=150)
    ap.add_argument("--batch-size", type=int, default=32)
    ap.add_argument("--lr", type=float, default=2e-3)
    ap.add_argument("--seed", type=int, default=9)
    ap.add_argument("--ckpt", default="tagger.pth")
    cfg = ap.parse_args()
    random.seed(cfg.seed)
    np.random.seed(cfg.seed)
    torch.manual_seed(cfg.seed)
    rng = np.random.default_rng(cfg.seed)
    xtr, ytr = log_mels(800, rng)
    xva, yva = log_mels(200, rng)
    m, s = xtr.mean(), xtr.std()
    xtr, xva = (xtr - m) / s, (xva - m) / s
    gen = torch.Generator()
    train_loader = DataLoader(TensorDataset(xtr, ytr), cfg.batch_size, shuffle=True, generator=gen)
    val_loader = DataLoader(TensorDataset(xva, yva), 50)

    model = Tagger()
    model.calibrate(xtr[:256])
    optimizer = torch.optim.Adam(model.parameters(), lr=cfg.lr)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, cfg.epochs, eta_min=cfg.lr / 50)
    start = 0
    if os.path.exists(cfg.ckpt):
        ck = torch.load(cfg.ckpt)
        model.load_state_dict(ck["model"])
        optimizer.load_state_dict(ck["optimizer"])
        scheduler.load_state_dict(ck["scheduler"])
        start = ck["epoch"] + 1
    for epoch in range(start, cfg.epochs):
        gen.manual_seed(cfg.seed + 100 * epoch)
        model.train()
        total = 0.0
        for step, (x, y) in enumerate(train_loader):
            loss = F.binary_cross_entropy_with_logits(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
            if step % 5 == 0:
                print(f"epoch {epoch} step {step} bce {loss.item():.4f}", flush=True)
        scheduler.step()
        vl, va = evaluate(model, val_loader)
        print(f"epoch {epoch} train {total / len(train_loader):.4f} val {vl:.4f} tag acc {va:.3f}", flush=True)
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(),
                    "scheduler": scheduler.state_dict(), "epoch": epoch}, cfg.ckpt)


if __name__ == "__main__":
    main()

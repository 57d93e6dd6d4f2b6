# Estimate anatomical cross-sectional area (cm2) and muscle thickness (cm) from ultrasound-like frames.
from __future__ import annotations

import argparse
import csv
import os
import random
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

IMG = 64
CM_PER_PIXEL = 0.11


def smooth(field: np.ndarray, times: int) -> np.ndarray:
    for _ in range(times):
        field = (field + np.roll(field, 1, -1) + np.roll(field, -1, -1) + np.roll(field, 1, -2) + np.roll(field, -1, -2)) / 5
    return field


def scan(n: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Elliptic muscle with bright fascia, speckle, depth attenuation and dark shadows."""
    rng = np.random.default_rng(seed)
    yy, xx = np.mgrid[0:IMG, 0:IMG].astype(np.float32)
    images = np.empty((n, 1, IMG, IMG), dtype=np.float32)
    targets = np.empty((n, 2), dtype=np.float32)
    speckle = smooth(rng.rayleigh(1.0, (n, IMG, IMG)).astype(np.float32), 1)
    for i in range(n):
        a, b = rng.uniform(13, 27), rng.uniform(6, 17)
        cy, cx = IMG / 2 + rng.uniform(-7, 7), IMG / 2 + rng.uniform(-5, 5)
        tilt = rng.uniform(-0.4, 0.4)
        u = (xx - cx) * np.cos(tilt) + (yy - cy) * np.sin(tilt)
        v = -(xx - cx) * np.sin(tilt) + (yy - cy) * np.cos(tilt)
        radius = np.sqrt((u / a) ** 2 + (v / b) ** 2)
        echo = 0.75 - 0.4 * (radius < 1) + 0.9 * np.exp(-((radius - 1) * b / 1.4) ** 2)
        echo += 0.12 * (radius < 1) * np.sin(0.9 * v + 0.2 * u)
        echo *= np.exp(-yy / IMG * rng.uniform(0.2, 1.0)) * rng.uniform(0.7, 1.3)
        x0 = rng.integers(0, IMG)
        echo[:, x0:x0 + rng.integers(2, 7)] *= 0.5
        images[i, 0] = echo * speckle[i]
        targets[i] = np.pi * a * b * CM_PER_PIXEL ** 2, 2 * b * CM_PER_PIXEL
    return torch.from_numpy(np.log1p(images)), torch.from_numpy(targets)


class Regressor(nn.Module):
    def __init__(self, mean: torch.Tensor, std: torch.Tensor) -> None:
        super().__init__()
        widths = [1, 24, 32, 48, 64]
        layers = []
        for cin, cout in zip(widths[:-1], widths[1:]):
            layers += [nn.Conv2d(cin, cout, 3, padding=1, bias=False), nn.BatchNorm2d(cout), nn.ReLU(), nn.MaxPool2d(2)]
        self.features = nn.Sequential(*layers)
        self.head = nn.Sequential(nn.Flatten(), nn.Linear(64 * (IMG // 16) ** 2, 96), nn.ReLU(), nn.Dropout(0.2), nn.Linear(96, 2))
        self.register_buffer("mean", mean)
        self.register_buffer("std", std)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.features(x)) * self.std + self.mean

    def scaled_loss(self, pred: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return F.smooth_l1_loss((pred - self.mean) / self.std, (target - self.mean) / self.std)


@torch.no_grad()
def validate(model: Regressor, loader: DataLoader) -> tuple[float, torch.Tensor]:
    model.eval()
    loss, error, n = 0.0, torch.zeros(2), 0
    for x, y in loader:
        pred = model(x)
        loss += model.scaled_loss(pred, y).item() * len(x)
        error += (pred - y).abs().sum(0)
        n += len(x)
    return loss / n, error / n


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=200)
    parser.add_argument("--batch-size", type=int, default=24)
    parser.add_argument("--learning-rate", type=float, default=2e-3)
    parser.add_argument("--lr-factor", type=float, default=0.1)
    parser.add_argument("--lr-patience", type=int, default=10)
    parser.add_argument("--stop-patience", type=int, default=40)
    parser.add_argument("--frames", type=int, default=2400)
    parser.add_argument("--seed", type=int, default=35)
    parser.add_argument("--out", default="acsa_training")
    args = parser.parse_args()

    random.seed(args.seed)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)
    os.makedirs(args.out, exist_ok=True)

    train_x, train_y = scan(args.frames, args.seed)
    val_x, val_y = scan(400, args.seed + 1)
    train_loader = DataLoader(TensorDataset(train_x, train_y), args.batch_size, shuffle=True, drop_last=True)
    val_loader = DataLoader(TensorDataset(val_x, val_y), 100)

    model = Regressor(train_y.mean(0), train_y.std(0))
    optimizer = torch.optim.Adam(model.parameters(), lr=args.learning_rate)
    scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(
        optimizer, mode="min", factor=args.lr_factor, patience=args.lr_patience, min_lr=1e-6)

    best, since = float("inf"), 0
    log = csv.writer(open(os.path.join(args.out, "history.csv"), "w", newline="", buffering=1))
    log.writerow(["epoch", "loss", "val_loss", "acsa_error", "thickness_error", "lr"])
    for epoch in range(1, args.epochs + 1):
        model.train()
        start, total = time.time(), 0.0
        for i, (x, y) in enumerate(train_loader, 1):
            if torch.rand(()) < 0.5:
                x = x.flip(-1)
            loss = model.scaled_loss(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
            if i % 25 == 0:
                print(f"epoch {epoch} {i}/{len(train_loader)} loss {total / i:.4f}", flush=True)
        val_loss, error = validate(model, val_loader)
        scheduler.step(val_loss)
        lr = optimizer.param_groups[0]["lr"]
        log.writerow([epoch, total / len(train_loader), val_loss, *error.tolist(), lr])
        print(f"epoch {epoch} loss {total / len(train_loader):.4f} val {val_loss:.4f} ACSA error {error[0]:.3f} cm2 "
              f"thickness error {error[1]:.3f} cm lr {lr:.1e} ({time.time() - start:.0f}s)", flush=True)
        if val_loss < best:
            best, since = val_loss, 0
            torch.save({"model": model.state_dict(), "epoch": epoch, "val_loss": val_loss}, os.path.join(args.out, "best_model.pt"))
        else:
            since += 1
            if since >= args.stop_patience:
                print("early stopping")
                break


if __name__ == "__main__":
    main()

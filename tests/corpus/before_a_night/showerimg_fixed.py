"""Gamma / proton separation on telescope images. With --resume it goes on in the same output directory."""
import argparse
import os
import random
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

SIZE = 40


def make_showers(n, seed):
    """Charge and peak-time images. Gammas are compact ellipses, protons are patchy and irregular."""
    rng = np.random.default_rng(seed)
    yy, xx = np.mgrid[0:SIZE, 0:SIZE].astype(np.float32)
    images = np.zeros((n, 2, SIZE, SIZE), dtype=np.float32)
    labels = rng.integers(0, 2, n)
    for i in range(n):
        gamma = labels[i] == 1
        cx, cy = rng.uniform(10, SIZE - 10, 2)
        psi = rng.uniform(0, np.pi)
        length = rng.uniform(3, 6) if gamma else rng.uniform(2.5, 7)
        width = length * (rng.uniform(0.25, 0.45) if gamma else rng.uniform(0.35, 0.8))
        u = (xx - cx) * np.cos(psi) + (yy - cy) * np.sin(psi)
        v = -(xx - cx) * np.sin(psi) + (yy - cy) * np.cos(psi)
        size = 10 ** rng.uniform(0.6, 1.4)
        charge = size * np.exp(-0.5 * ((u / length) ** 2 + (v / width) ** 2))
        if not gamma:
            for _ in range(rng.integers(0, 4)):
                px, py = cx + rng.normal(0, 7), cy + rng.normal(0, 7)
                charge += size * rng.uniform(0.1, 0.6) * np.exp(-0.5 * ((xx - px) ** 2 + (yy - py) ** 2) / rng.uniform(0.6, 3))
        charge = rng.poisson(np.clip(charge, 0, None)) + rng.normal(0, 1.0, charge.shape)
        peak = (u * rng.uniform(0.15, 0.35) + rng.normal(0, 0.6, u.shape)) * (charge > 3)
        images[i, 0] = np.sign(charge) * np.log1p(np.abs(charge))
        images[i, 1] = peak / 3
    return torch.from_numpy(images), torch.from_numpy(labels)


class Residual(nn.Module):
    def __init__(self, i, o):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(i, o, 3, padding=1, bias=False), nn.BatchNorm2d(o), nn.ReLU(),
                                  nn.Conv2d(o, o, 3, padding=1, bias=False), nn.BatchNorm2d(o))
        self.skip = nn.Conv2d(i, o, 1)

    def forward(self, x):
        return F.relu(self.body(x) + self.skip(x))


class ThinResNet(nn.Module):
    def __init__(self, widths=(16, 32, 64)):
        super().__init__()
        self.blocks = nn.ModuleList([Residual(i, o) for i, o in zip((2,) + widths[:-1], widths)])
        self.drop = nn.Dropout(0.2)
        self.fc = nn.Linear(widths[-1], 2)

    def forward(self, x):
        for block in self.blocks:
            x = F.max_pool2d(block(x), 2)
        return self.fc(self.drop(x.mean((2, 3))))


@torch.no_grad()
def validate(model, loader):
    model.eval()
    loss, right, n = 0.0, 0, 0
    for x, y in loader:
        logits = model(x)
        loss += F.cross_entropy(logits, y, reduction="sum").item()
        right += (logits.argmax(1) == y).sum().item()
        n += len(y)
    return loss / n, right / n


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--output_dir", type=str, default="ctlearn_run")
    ap.add_argument("--resume", action="store_true")
    ap.add_argument("--epochs", type=int, default=300)
    ap.add_argument("--batch_size", type=int, default=64)
    ap.add_argument("--lr", type=float, default=1e-3)
    ap.add_argument("--n_train", type=int, default=2560)
    ap.add_argument("--n_val", type=int, default=640)
    ap.add_argument("--seed", type=int, default=12)
    args = ap.parse_args()
    random.seed(args.seed)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)
    os.makedirs(args.output_dir, exist_ok=True)
    last_path = os.path.join(args.output_dir, "last.pt")
    best_path = os.path.join(args.output_dir, "best.pt")

    order = torch.Generator()
    train_loader = DataLoader(TensorDataset(*make_showers(args.n_train, 1)), args.batch_size, shuffle=True, generator=order)
    val_loader = DataLoader(TensorDataset(*make_showers(args.n_val, 2)), 128)

    model = ThinResNet()
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr, weight_decay=1e-5)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=args.epochs, eta_min=1e-5)
    start_epoch = 1
    best_val_loss = float("inf")

    if args.resume and os.path.exists(last_path):
        state = torch.load(last_path)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        scheduler.load_state_dict(state["scheduler"])
        start_epoch = state["epoch"] + 1
        best_val_loss = state["best_val_loss"]
        print(f"resumed from {last_path}, epoch {start_epoch}")

    for epoch in range(start_epoch, args.epochs + 1):
        torch.manual_seed(args.seed + 1000 * epoch)
        order.manual_seed(args.seed + 1000 * epoch)
        model.train()
        t0, total = time.time(), 0.0
        for it, (x, y) in enumerate(train_loader, 1):
            # the camera has no preferred orientation
            k = int(torch.randint(4, (1,)))
            loss = F.cross_entropy(model(torch.rot90(x, k, (2, 3))), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
            if it % 10 == 0:
                print(f"epoch {epoch} {it}/{len(train_loader)} loss {total / it:.4f} {1000 * (time.time() - t0) / it:.0f} ms", flush=True)
        scheduler.step()
        val_loss, val_acc = validate(model, val_loader)
        improved = val_loss < best_val_loss
        if improved:
            best_val_loss = val_loss
            torch.save(model.state_dict(), best_path)
        state = {
            "epoch": epoch,
            "model": model.state_dict(),
            "optimizer": optimizer.state_dict(),
            "scheduler": scheduler.state_dict(),
            "best_val_loss": best_val_loss,
        }
        torch.save(state, last_path + ".tmp")
        os.replace(last_path + ".tmp", last_path)
        print(f"epoch {epoch}: val loss {val_loss:.4f} acc {val_acc:.4f}{' *' if improved else ''}", flush=True)


if __name__ == "__main__":
    main()

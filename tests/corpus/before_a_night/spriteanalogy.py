# Visual analogy making on small sprites: a is to b as c is to ?
import argparse
import random
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

SIZE = 32
YY, XX = np.mgrid[0:SIZE, 0:SIZE].astype(np.float32)


def render(attrs):
    """attrs = (shape, hue, x, y, scale, angle) -> 3 x SIZE x SIZE in [-1, 1]"""
    shape, hue, px, py, scale, angle = attrs
    cx, cy = 8 + 4 * px, 8 + 4 * py
    r = 3.5 + 1.5 * scale
    a = angle * np.pi / 8
    u = (XX - cx) * np.cos(a) + (YY - cy) * np.sin(a)
    v = -(XX - cx) * np.sin(a) + (YY - cy) * np.cos(a)
    if shape == 0:
        d = np.maximum(np.abs(u), np.abs(v)) - r
    elif shape == 1:
        d = np.sqrt((u / 1.5) ** 2 + (v * 1.2) ** 2) - r * 0.8
    else:
        d = np.maximum(np.abs(u) * 0.9 + v * 0.5, -v) - r * 0.7
    alpha = np.clip(0.5 - d, 0, 1)
    rgb = 0.5 + 0.5 * np.cos(2 * np.pi * (hue / 6.0 + np.array([0.0, 1 / 3, 2 / 3])))
    img = alpha[None] * (0.2 + 0.8 * rgb[:, None, None])
    return (img * 2 - 1).astype(np.float32)


CARD = (3, 6, 5, 5, 4, 4)


class AnalogyDataset(Dataset):
    """Quadruples (a, b, c, d): the change from a to b in one attribute, applied to c, gives d."""

    def __init__(self, length, seed):
        self.length = length
        self.seed = seed

    def __len__(self):
        return self.length

    def __getitem__(self, idx):
        rng = np.random.default_rng([self.seed, idx])
        which = int(rng.integers(1, 6))
        base = [int(rng.integers(c)) for c in CARD]
        other = [int(rng.integers(c)) for c in CARD]
        before, after = rng.choice(CARD[which], size=2, replace=False)
        a, b, c, d = list(base), list(base), list(other), list(other)
        a[which] = c[which] = int(before)
        b[which] = d[which] = int(after)
        return tuple(torch.from_numpy(render(t)) for t in (a, b, c, d))


class Encoder(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.c1 = nn.Conv2d(3, 32, 5, 2, 2)
        self.c2 = nn.Conv2d(32, 64, 3, 2, 1)
        self.c3 = nn.Conv2d(64, 64, 3, 2, 1)
        self.f1 = nn.Linear(64 * 16, 512)
        self.f2 = nn.Linear(512, dim)

    def forward(self, x):
        x = F.relu(self.c1(x))
        x = F.relu(self.c2(x))
        x = F.relu(self.c3(x))
        x = F.relu(self.f1(x.flatten(1)))
        return self.f2(x)


class Decoder(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.f1 = nn.Linear(dim, 512)
        self.f2 = nn.Linear(512, 64 * 16)
        self.d1 = nn.ConvTranspose2d(64, 64, 4, 2, 1)
        self.d2 = nn.ConvTranspose2d(64, 32, 4, 2, 1)
        self.d3 = nn.ConvTranspose2d(32, 3, 4, 2, 1)

    def forward(self, z):
        x = F.relu(self.f1(z))
        x = F.relu(self.f2(x)).view(-1, 64, 4, 4)
        x = F.relu(self.d1(x))
        x = F.relu(self.d2(x))
        x = F.relu(self.d3(x))
        return x


class AnalogyNet(nn.Module):
    def __init__(self, dim=128):
        super().__init__()
        self.enc = Encoder(dim)
        self.dec = Decoder(dim)
        self.t1 = nn.Linear(2 * dim, 256)
        self.t2 = nn.Linear(256, dim)

    def forward(self, a, b, c):
        fa, fb, fc = self.enc(torch.cat([a, b, c])).chunk(3)
        step = self.t2(F.relu(self.t1(torch.cat([fb - fa, fc], dim=1))))
        return self.dec(fc + step)


def train_epoch(model, loader, optimizer, epoch, log_every):
    model.train()
    running, t0 = 0.0, time.time()
    for it, (a, b, c, d) in enumerate(loader, 1):
        pred = model(a, b, c)
        loss = F.mse_loss(pred, d)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        running += loss.item()
        if it % log_every == 0:
            print(f"epoch {epoch} [{it}/{len(loader)}] mse {running / log_every:.4f} "
                  f"({1000 * (time.time() - t0) / it:.0f} ms/it)", flush=True)
            running = 0.0


@torch.no_grad()
def validate(model, loader):
    model.eval()
    total, n = 0.0, 0
    for a, b, c, d in loader:
        pred = model(a, b, c)
        total += F.mse_loss(pred, d, reduction="sum").item()
        n += d.numel()
    return total / n


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=60)
    ap.add_argument("--batch-size", type=int, default=64)
    ap.add_argument("--lr", type=float, default=5e-4)
    ap.add_argument("--train-size", type=int, default=40000)
    ap.add_argument("--val-size", type=int, default=1000)
    ap.add_argument("--log-every", type=int, default=10)
    ap.add_argument("--seed", type=int, default=1)
    args = ap.parse_args()

    random.seed(args.seed)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)

    train_set = AnalogyDataset(args.train_size, seed=10)
    val_set = AnalogyDataset(args.val_size, seed=11)
    train_loader = DataLoader(train_set, args.batch_size, shuffle=True, drop_last=True)
    val_loader = DataLoader(val_set, 200)

    model = AnalogyNet()
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=args.epochs, eta_min=1e-5)
    best = float("inf")
    for epoch in range(1, args.epochs + 1):
        train_epoch(model, train_loader, optimizer, epoch, args.log_every)
        scheduler.step()
        val = validate(model, val_loader)
        print(f"epoch {epoch}: val mse {val:.4f}", flush=True)
        if val < best:
            best = val
            torch.save(model.state_dict(), "analogy_best.pt")


if __name__ == "__main__":
    main()

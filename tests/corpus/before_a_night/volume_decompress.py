"""Virtual staining: predict a fluorescence patch from a phase patch; the volumes lie compressed on disk."""
import argparse
import os
import random

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset


def write_volumes(root, n, size=384, slices=3):
    os.makedirs(root, exist_ok=True)
    rng = np.random.default_rng(5)
    yy, xx = np.mgrid[-12:13, -12:13]
    for v in range(n):
        path = os.path.join(root, f"fov_{v:02d}.npz")
        if os.path.exists(path):
            continue
        phase = rng.normal(0, 0.05, (slices, size, size)).astype(np.float32)
        fluor = rng.normal(0, 0.02, (slices, size, size)).astype(np.float32)
        for _ in range(70 * slices):
            z, y, x = rng.integers(slices), rng.integers(13, size - 13), rng.integers(13, size - 13)
            r = rng.uniform(4, 9)
            d = np.sqrt(yy ** 2 + xx ** 2)
            phase[z, y - 12:y + 13, x - 12:x + 13] += 0.6 * np.exp(-((d - r) / 1.5) ** 2)
            fluor[z, y - 12:y + 13, x - 12:x + 13] += np.exp(-(d / (0.6 * r)) ** 2)
        np.savez_compressed(path, phase=phase, fluor=fluor)


class SlidingWindow(Dataset):
    """Patches of all volumes, mean and deviation of the phase channel from the training volumes."""

    def __init__(self, root, volumes, patch=48, per_volume=48, mean=0.0, std=1.0):
        self.paths = [os.path.join(root, f"fov_{v:02d}.npz") for v in volumes]
        self.patch, self.per_volume = patch, per_volume
        self.mean, self.std = mean, std

    def read(self, path):
        with np.load(path) as f:
            return f["phase"], f["fluor"]

    def __len__(self):
        return len(self.paths) * self.per_volume

    def __getitem__(self, i):
        phase, fluor = self.read(self.paths[i // self.per_volume])
        k, p = i % self.per_volume, self.patch
        z, k = k % phase.shape[0], k // phase.shape[0]
        y, x = (k // 4) * 80 + 5, (k % 4) * 80 + 5
        a = (phase[z, y:y + p, x:x + p] - self.mean) / self.std
        return torch.from_numpy(a.copy())[None], torch.from_numpy(fluor[z, y:y + p, x:x + p].copy())[None]


class Stain(nn.Module):
    def __init__(self, ch=16):
        super().__init__()
        self.c1 = nn.Conv2d(1, ch, 5, padding=2)
        self.c2 = nn.Conv2d(ch, ch, 5, padding=4, dilation=2)
        self.c3 = nn.Conv2d(ch, ch, 3, padding=3, dilation=3)
        self.out = nn.Conv2d(ch, 1, 1)

    def forward(self, x):
        h = F.relu(self.c1(x))
        h = h + F.relu(self.c2(h))
        h = h + F.relu(self.c3(h))
        return self.out(h)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--data", default="fovs")
    ap.add_argument("--epochs", type=int, default=200)
    ap.add_argument("--batch_size", type=int, default=8)
    ap.add_argument("--lr", type=float, default=2e-3)
    ap.add_argument("--seed", type=int, default=9)
    ap.add_argument("--ckpt", default="stain.pt")
    args = ap.parse_args()
    random.seed(args.seed)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)
    write_volumes(args.data, 6)
    order = torch.Generator()
    with np.load(os.path.join(args.data, "fov_00.npz")) as f:
        mean, std = float(f["phase"].mean()), float(f["phase"].std())
    train = DataLoader(SlidingWindow(args.data, range(5), mean=mean, std=std), args.batch_size, shuffle=True, generator=order)
    val = DataLoader(SlidingWindow(args.data, [5], mean=mean, std=std), 16)
    net = Stain()
    opt = torch.optim.Adam(net.parameters(), lr=args.lr)
    start = 0
    if os.path.exists(args.ckpt):
        ck = torch.load(args.ckpt)
        net.load_state_dict(ck["net"])
        opt.load_state_dict(ck["opt"])
        start = ck["epoch"]
        print("resumed at epoch", start)
    for epoch in range(start, args.epochs):
        order.manual_seed(args.seed + 1009 * epoch)
        net.train()
        for step, (x, y) in enumerate(train):
            loss = F.mse_loss(net(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            if step % 5 == 0:
                print(f"epoch {epoch} step {step} loss {loss.item():.5f}", flush=True)
        net.eval()
        with torch.no_grad():
            err = torch.cat([(net(x) - y).square().mean((1, 2, 3)) for x, y in val]).mean().item()
        print(f"epoch {epoch} val mse {err:.5f}", flush=True)
        torch.save({"net": net.state_dict(), "opt": opt.state_dict(), "epoch": epoch + 1}, args.ckpt)


if __name__ == "__main__":
    main()

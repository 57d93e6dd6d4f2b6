"""Autoregressive image model (masked convolutions) on small synthetic textures with four grey levels."""
import argparse
import os
import random

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

ap = argparse.ArgumentParser()
ap.add_argument("--epochs", type=int, default=200)
ap.add_argument("--batch", type=int, default=12)
ap.add_argument("--lr", type=float, default=2e-3)
ap.add_argument("--hidden", type=int, default=24)
ap.add_argument("--seed", type=int, default=13)
ap.add_argument("--save", default="pixels.pt")

LEVELS, SIZE = 4, 16


def textures(n, seed):
    rng = np.random.default_rng(seed)
    yy, xx = np.mgrid[:SIZE, :SIZE]
    out = np.zeros((n, SIZE, SIZE), np.int64)
    for i in range(n):
        f, ph, ang = rng.uniform(0.5, 1.2), rng.uniform(0, 6.28), rng.uniform(0, 3.14)
        wave = np.sin(f * (np.cos(ang) * xx + np.sin(ang) * yy) + ph) + rng.normal(0, 0.06, (SIZE, SIZE))
        out[i] = np.digitize(wave, [-0.5, 0.0, 0.5])
    return torch.from_numpy(out)


class MaskedConv(nn.Conv2d):
    def __init__(self, i, o, k, include_center):
        super().__init__(i, o, k, padding=k // 2)
        m = torch.ones(1, 1, k, k)
        m[..., k // 2, k // 2 + int(include_center):] = 0
        m[..., k // 2 + 1:, :] = 0
        self.register_buffer("mask", m)

    def forward(self, x):
        return F.conv2d(x, self.weight * self.mask, self.bias, padding=self.padding)


class PixelModel(nn.Module):
    def __init__(self, h):
        super().__init__()
        self.first = MaskedConv(LEVELS, h, 5, False)
        self.mid = nn.ModuleList(MaskedConv(h, h, 3, True) for _ in range(2))
        self.out = nn.Sequential(nn.SiLU(), nn.Conv2d(h, h, 1), nn.SiLU(), nn.Conv2d(h, LEVELS, 1))

    def forward(self, img):
        h = self.first(F.one_hot(img, LEVELS).permute(0, 3, 1, 2).float())
        for m in self.mid:
            h = h + m(F.silu(h))
        return self.out(h)


def nll(model, img):
    return F.cross_entropy(model(img), img)


def main():
    args = ap.parse_args()
    random.seed(args.seed)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)
    gen = torch.Generator().manual_seed(args.seed)
    train = DataLoader(TensorDataset(textures(288, 1)), args.batch, shuffle=True, generator=gen)
    held_out = textures(96, 2)
    model = PixelModel(args.hidden)
    opt = torch.optim.Adam(model.parameters(), lr=args.lr)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, args.epochs)
    start = 0
    history = {"train": [], "probe": []}
    if os.path.exists(args.save):
        s = torch.load(args.save, weights_only=False)
        model.load_state_dict(s["model"])
        opt.load_state_dict(s["opt"])
        sched.load_state_dict(s["sched"])
        start = s["epoch"]
        torch.set_rng_state(s["torch"])
        np.random.set_state(s["numpy"])
        random.setstate(s["python"])
        gen.set_state(s["loader"])
    for epoch in range(start, args.epochs):
        model.train()
        for i, (img,) in enumerate(train):
            loss = nll(model, img)
            opt.zero_grad()
            loss.backward()
            opt.step()
            probe = nll(model, held_out[:12])
            history["train"].append(loss.item())
            history["probe"].append(probe.item())
            if i % 4 == 0:
                print(f"epoch {epoch} it {i} nll {loss.item():.4f} probe {probe.item():.4f}")
        sched.step()
        model.eval()
        with torch.no_grad():
            v = nll(model, held_out).item()
        mean_probe = float(sum(history["probe"][-len(train):])) / len(train)
        print(f"epoch {epoch} val nll {v:.4f} mean probe {mean_probe:.4f}")
        torch.save({"model": model.state_dict(), "opt": opt.state_dict(), "sched": sched.state_dict(), "epoch": epoch + 1,
                    "torch": torch.get_rng_state(), "numpy": np.random.get_state(), "python": random.getstate(),
                    "loader": gen.get_state()}, args.save + ".tmp")
        os.replace(args.save + ".tmp", args.save)


if __name__ == "__main__":
    main()

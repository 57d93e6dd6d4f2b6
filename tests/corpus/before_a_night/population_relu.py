"""Population disaggregation: per-pixel densities from building features, trained on the sums over regions."""
import argparse
import os
import random

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

ap = argparse.ArgumentParser()
ap.add_argument("--epochs", type=int, default=400)
ap.add_argument("--batch", type=int, default=16)
ap.add_argument("--lr", type=float, default=2e-3)
ap.add_argument("--seed", type=int, default=4)
ap.add_argument("--ckpt", default="population.pt")


def regions(n, seed, size=16, feats=8):
    """Feature maps per region, a building mask, and the census count of the region (in thousands)."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, feats, size, size))
    for _ in range(2):
        x = 0.5 * x + 0.25 * (np.roll(x, 1, 2) + np.roll(x, 1, 3))
    x += 0.8 * rng.normal(size=(n, feats, 1, 1))
    built = (x[:, 0] + 0.3 * rng.normal(size=(n, size, size)) > 0.1).astype(np.float64)
    dens = np.log1p(np.exp(1.2 * x[:, 1] - 0.8 * x[:, 2] + 0.5 * x[:, 3] * x[:, 4]))
    count = (dens * built).sum((1, 2)) / 100.0
    return x.astype(np.float32), built.astype(np.float32), count.astype(np.float32)


class ScaleNet(nn.Module):
    """Occupancy rate per pixel; the count of a region is the sum over its built pixels."""

    def __init__(self, feats, hidden=64):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(feats, hidden, 1), nn.SiLU(), nn.Conv2d(hidden, hidden, 1), nn.SiLU())
        self.out = nn.Conv2d(hidden, 1, 1)
        self.positive = nn.ReLU()
        nn.init.constant_(self.out.bias, -2.0)

    def forward(self, x, built):
        rate = self.positive(self.out(self.body(x))).squeeze(1)
        return (rate * built).sum((1, 2)) / 100.0


def main():
    args = ap.parse_args()
    random.seed(args.seed)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)
    x, b, c = regions(384, 1)
    vx, vb, vc = regions(128, 2)
    mean, std = x.mean((0, 2, 3), keepdims=True), x.std((0, 2, 3), keepdims=True)
    x, vx = (x - mean) / std, (vx - mean) / std
    gen = torch.Generator().manual_seed(args.seed)
    train = DataLoader(TensorDataset(*map(torch.from_numpy, (x, b, c))), args.batch, shuffle=True, generator=gen)
    val = DataLoader(TensorDataset(*map(torch.from_numpy, (vx, vb, vc))), 64)
    net = ScaleNet(x.shape[1])
    crit = nn.L1Loss()
    opt = torch.optim.Adam(net.parameters(), lr=args.lr)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, args.epochs)
    start, best = 0, float("inf")
    if os.path.exists(args.ckpt):
        s = torch.load(args.ckpt, weights_only=False)
        net.load_state_dict(s["net"])
        opt.load_state_dict(s["opt"])
        sched.load_state_dict(s["sched"])
        start, best = s["epoch"], s["best"]
        torch.set_rng_state(s["torch"])
        np.random.set_state(s["numpy"])
        random.setstate(s["python"])
        gen.set_state(s["gen"])
    for epoch in range(start, args.epochs):
        net.train()
        tot = 0.0
        for i, (xb, bb, cb) in enumerate(train):
            loss = crit(net(xb, bb), cb)
            opt.zero_grad()
            loss.backward()
            opt.step()
            tot += loss.item()
            if i % 4 == 0:
                print(f"epoch {epoch} batch {i} mae {loss.item():.4f}")
        sched.step()
        net.eval()
        with torch.no_grad():
            v = float(np.mean([crit(net(xb, bb), cb).item() for xb, bb, cb in val]))
        best = min(best, v)
        print(f"epoch {epoch} train mae {tot / len(train):.4f} val mae {v:.4f} best {best:.4f}")
        torch.save({"net": net.state_dict(), "opt": opt.state_dict(), "sched": sched.state_dict(), "epoch": epoch + 1,
                    "best": best, "torch": torch.get_rng_state(), "numpy": np.random.get_state(),
                    "python": random.getstate(), "gen": gen.get_state()}, args.ckpt + ".tmp")
        os.replace(args.ckpt + ".tmp", args.ckpt)


if __name__ == "__main__":
    main()

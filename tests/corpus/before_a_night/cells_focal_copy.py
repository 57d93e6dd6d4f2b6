"""Binary segmentation of cells in noisy microscopy images with a focal loss."""
import argparse
import os
import random

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def cli():
    p = argparse.ArgumentParser()
    p.add_argument("--epochs", type=int, default=250)
    p.add_argument("--bs", type=int, default=16)
    p.add_argument("--lr", type=float, default=2e-3)
    p.add_argument("--gamma", type=float, default=2.0)
    p.add_argument("--alpha", type=float, default=-1.0)
    p.add_argument("--seed", type=int, default=31)
    p.add_argument("--ckpt", default="cells.pt")
    return p.parse_args()


def cells(n, size, seed):
    rng = np.random.default_rng(seed)
    yy, xx = np.mgrid[:size, :size]
    img = rng.normal(0, 0.25, (n, 1, size, size))
    mask = np.zeros((n, 1, size, size))
    for i in range(n):
        for _ in range(rng.integers(2, 6)):
            cy, cx, r = rng.uniform(4, size - 4), rng.uniform(4, size - 4), rng.uniform(2.5, 5)
            e = rng.uniform(0.7, 1.4)
            disk = ((yy - cy) * e) ** 2 + ((xx - cx) / e) ** 2 < r * r
            mask[i, 0][disk] = 1
            img[i, 0][disk] += rng.uniform(0.7, 1.2)
        img[i, 0] += 0.3 * np.sin(xx / size * rng.uniform(2, 5))
    return img.astype(np.float32), mask.astype(np.float32)


def focal_loss_with_logits(logits, target, gamma, alpha):
    """Focal loss; `alpha` in [0, 1] balances the classes, a negative value turns that off."""
    ce = F.binary_cross_entropy_with_logits(logits, target, reduction="none")
    prob = torch.sigmoid(logits)
    pt = torch.tensor(prob * target + (1 - prob) * (1 - target))
    focal_term = (1.0 - pt).pow(gamma)
    loss = focal_term * ce
    if alpha >= 0:
        loss = loss * (alpha * target + (1 - alpha) * (1 - target))
    return loss.mean()


class SmallUNet(nn.Module):
    def __init__(self, c=12):
        super().__init__()
        def conv(i, o):
            return nn.Sequential(nn.Conv2d(i, o, 3, padding=1), nn.GroupNorm(4, o), nn.SiLU())
        self.d1, self.d2, self.mid = conv(1, c), conv(c, 2 * c), conv(2 * c, 4 * c)
        self.u2, self.u1 = conv(6 * c, 2 * c), conv(3 * c, c)
        self.head = nn.Conv2d(c, 1, 1)

    def forward(self, x):
        a = self.d1(x)
        b = self.d2(F.avg_pool2d(a, 2))
        m = self.mid(F.avg_pool2d(b, 2))
        b = self.u2(torch.cat([F.interpolate(m, scale_factor=2), b], 1))
        a = self.u1(torch.cat([F.interpolate(b, scale_factor=2), a], 1))
        return self.head(a)


def main():
    args = cli()
    random.seed(args.seed)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)
    xi, xm = cells(384, 32, 1)
    vi, vm = cells(96, 32, 2)
    mean, std = xi.mean(), xi.std()
    gen = torch.Generator().manual_seed(args.seed)
    tr = DataLoader(TensorDataset(torch.from_numpy((xi - mean) / std), torch.from_numpy(xm)), args.bs, shuffle=True, generator=gen)
    va = DataLoader(TensorDataset(torch.from_numpy((vi - mean) / std), torch.from_numpy(vm)), 48)
    model = SmallUNet()
    opt = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=1e-4)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, args.epochs)
    start = 0
    if os.path.exists(args.ckpt):
        c = torch.load(args.ckpt, weights_only=False)
        model.load_state_dict(c["model"])
        opt.load_state_dict(c["opt"])
        sched.load_state_dict(c["sched"])
        start = c["epoch"]
        torch.set_rng_state(c["rng"][0])
        np.random.set_state(c["rng"][1])
        random.setstate(c["rng"][2])
        gen.set_state(c["rng"][3])
    for epoch in range(start, args.epochs):
        model.train()
        for i, (x, y) in enumerate(tr):
            loss = focal_loss_with_logits(model(x), y, args.gamma, args.alpha)
            opt.zero_grad()
            loss.backward()
            opt.step()
            if i % 4 == 0:
                print(f"epoch {epoch} iter {i} loss {loss.item():.4f}")
        sched.step()
        model.eval()
        inter = union = 0.0
        with torch.no_grad():
            for x, y in va:
                pr = (model(x) > 0).float()
                inter += (pr * y).sum().item()
                union += ((pr + y) > 0).float().sum().item()
        print(f"epoch {epoch} val iou {inter / max(union, 1):.4f}")
        torch.save({"model": model.state_dict(), "opt": opt.state_dict(), "sched": sched.state_dict(), "epoch": epoch + 1,
                    "rng": (torch.get_rng_state(), np.random.get_state(), random.getstate(), gen.get_state())}, args.ckpt + ".tmp")
        os.replace(args.ckpt + ".tmp", args.ckpt)


if __name__ == "__main__":
    main()

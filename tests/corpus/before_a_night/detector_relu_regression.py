"""Anchor-based detector on bird's-eye-view grids: one anchor per cell, score and box regression."""
import argparse
import os
import random

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

GRID, CELL, ANCHOR = 16, 4, (6.0, 10.0)


def make_scenes(n, seed):
    rng = np.random.default_rng(seed)
    size = GRID * CELL
    x = rng.random((n, 2, size, size)).astype(np.float32) * (rng.random((n, 2, size, size)) < 0.03)
    pos = np.zeros((n, GRID, GRID), np.float32)
    reg = np.zeros((n, 4, GRID, GRID), np.float32)
    yy, xx = np.mgrid[:size, :size]
    for i in range(n):
        for cell in rng.choice(GRID * GRID, 4, replace=False):
            r, c = divmod(int(cell), GRID)
            cy, cx = (r + rng.random()) * CELL, (c + rng.random()) * CELL
            h, w = ANCHOR[0] * rng.uniform(0.6, 1.6), ANCHOR[1] * rng.uniform(0.6, 1.6)
            inside = (np.abs(yy - cy) < h / 2) & (np.abs(xx - cx) < w / 2)
            x[i, 0][inside] = 1.0
            x[i, 1][(np.abs(yy - cy) < 1.5) & (np.abs(xx - cx) < 1.5)] = 1.0
            pos[i, r, c] = 1
            reg[i, :, r, c] = [(cy - (r + 0.5) * CELL) / 2, (cx - (c + 0.5) * CELL) / 2,
                               2 * np.log(h / ANCHOR[0]), 2 * np.log(w / ANCHOR[1])]
    return TensorDataset(torch.from_numpy(x), torch.from_numpy(pos), torch.from_numpy(reg))


class ConvBlock(nn.Module):
    def __init__(self, i, o, k=3, s=1, activation=True):
        super().__init__()
        self.conv = nn.Conv2d(i, o, k, s, k // 2)
        self.activation = activation

    def forward(self, x):
        h = self.conv(x)
        return F.relu(h) if self.activation else h


class RPN(nn.Module):
    def __init__(self, ch=24):
        super().__init__()
        self.b1 = ConvBlock(2, ch, 3, 2)
        self.b2 = ConvBlock(ch, ch, 3, 2)
        self.b3 = ConvBlock(ch, ch)
        self.b4 = ConvBlock(ch, ch)
        self.score = ConvBlock(ch, 1, 1)
        self.reg = ConvBlock(ch, 4, 1)

    def forward(self, x):
        h = self.b2(self.b1(x))
        h = h + self.b3(h)
        h = h + self.b4(h)
        return self.score(h).squeeze(1), self.reg(h)


def rpn_loss(score, reg, pos, target):
    cls = F.binary_cross_entropy_with_logits(score, pos, pos_weight=torch.tensor(10.0))
    m = pos[:, None]
    box = (F.smooth_l1_loss(reg, target, reduction="none", beta=0.3) * m).sum() / m.sum().clamp(min=1)
    return cls, box


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=200)
    ap.add_argument("--batch_size", type=int, default=16)
    ap.add_argument("--lr", type=float, default=2e-3)
    ap.add_argument("--seed", type=int, default=7)
    ap.add_argument("--ckpt", default="rpn.pt")
    args = ap.parse_args()
    random.seed(args.seed)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)
    order = torch.Generator()
    train = DataLoader(make_scenes(400, 1), args.batch_size, shuffle=True, generator=order)
    val = DataLoader(make_scenes(96, 2), 32)
    net = RPN()
    opt = torch.optim.Adam(net.parameters(), lr=args.lr)
    sched = torch.optim.lr_scheduler.StepLR(opt, 80, gamma=0.3)
    start = 0
    if os.path.exists(args.ckpt):
        ck = torch.load(args.ckpt)
        net.load_state_dict(ck["net"])
        opt.load_state_dict(ck["opt"])
        sched.load_state_dict(ck["sched"])
        start = ck["epoch"]
        print("resumed at epoch", start)
    for epoch in range(start, args.epochs):
        order.manual_seed(args.seed + 47 * epoch)
        net.train()
        for step, (x, pos, target) in enumerate(train):
            score, reg = net(x)
            cls, box = rpn_loss(score, reg, pos, target)
            loss = cls + box
            opt.zero_grad()
            loss.backward()
            opt.step()
            if step % 5 == 0:
                print(f"epoch {epoch} step {step} loss {loss.item():.4f} cls {cls.item():.4f} box {box.item():.4f}", flush=True)
        sched.step()
        net.eval()
        tot = torch.zeros(2)
        with torch.no_grad():
            for x, pos, target in val:
                tot += torch.stack(rpn_loss(*net(x), pos, target)) / len(val)
        print(f"epoch {epoch} val cls {tot[0]:.4f} box {tot[1]:.4f}", flush=True)
        torch.save({"net": net.state_dict(), "opt": opt.state_dict(), "sched": sched.state_dict(), "epoch": epoch + 1}, args.ckpt)


if __name__ == "__main__":
    main()

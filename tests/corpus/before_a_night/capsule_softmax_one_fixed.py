"""Part capsules: every capsule attends over positions of the feature map and gives a pose and a presence."""
import argparse
import os
import random

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

CLASSES = 6


def make_pictures(n, seed):
    """Two strokes of given kinds at random places; the class is the pair of kinds."""
    kinds = [(0, 0), (0, 1), (1, 1), (0, 2), (1, 2), (2, 2)]
    rng = np.random.default_rng(seed)
    x = rng.normal(0, 0.15, (n, 1, 28, 28)).astype(np.float32)
    y = rng.integers(0, CLASSES, n)
    for i in range(n):
        for side, k in enumerate(kinds[y[i]]):
            r, c = int(rng.integers(3, 18)), int(rng.integers(1, 6)) + 14 * side
            if k == 0:
                x[i, 0, r:r + 8, c + 3] += 1
            elif k == 1:
                x[i, 0, r + 4, c:c + 8] += 1
            else:
                x[i, 0, np.arange(r, r + 8), np.arange(c, c + 8)] += 1
    return TensorDataset(torch.from_numpy(x), torch.from_numpy(y))


class PartCapsules(nn.Module):
    def __init__(self, ch=24, capsules=8, pose=8):
        super().__init__()
        self.capsules, self.pose = capsules, pose
        self.cnn = nn.Sequential(
            nn.Conv2d(1, ch, 5, 2, 2, bias=False), nn.BatchNorm2d(ch), nn.ReLU(),
            nn.Conv2d(ch, ch, 3, 2, 1, bias=False), nn.BatchNorm2d(ch), nn.ReLU())
        self.att = nn.Conv2d(ch, capsules, 1, bias=False)
        self.value = nn.Conv2d(ch, capsules * pose, 1)

    def forward(self, x):
        h = self.cnn(x)
        b, _, rows, cols = h.shape
        attention = self.att(h).view(b * self.capsules, rows * cols, 1)
        attention_soft = F.softmax(attention, dim=1)
        value = self.value(h).view(b * self.capsules, self.pose, rows * cols)
        return (value @ attention_soft).view(b, self.capsules * self.pose)


class CapsuleNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.parts = PartCapsules()
        self.norm = nn.LayerNorm(64)
        self.obj = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, CLASSES))

    def forward(self, x):
        return self.obj(self.norm(self.parts(x)))


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=200)
    ap.add_argument("--batch_size", type=int, default=32)
    ap.add_argument("--lr", type=float, default=3e-3)
    ap.add_argument("--seed", type=int, default=2)
    ap.add_argument("--ckpt", default="capsules.pt")
    args = ap.parse_args()
    random.seed(args.seed)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)
    order = torch.Generator()
    train = DataLoader(make_pictures(960, 1), args.batch_size, shuffle=True, generator=order)
    val = DataLoader(make_pictures(256, 2), 64)
    net = CapsuleNet()
    opt = torch.optim.Adam(net.parameters(), lr=args.lr)
    sched = torch.optim.lr_scheduler.ExponentialLR(opt, 0.985)
    start = 0
    if os.path.exists(args.ckpt):
        ck = torch.load(args.ckpt)
        net.load_state_dict(ck["net"])
        opt.load_state_dict(ck["opt"])
        sched.load_state_dict(ck["sched"])
        start = ck["epoch"]
        print("resumed at epoch", start)
    for epoch in range(start, args.epochs):
        order.manual_seed(args.seed + 83 * epoch)
        net.train()
        for step, (x, y) in enumerate(train):
            loss = F.cross_entropy(net(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            if step % 5 == 0:
                print(f"epoch {epoch} step {step} loss {loss.item():.4f}", flush=True)
        sched.step()
        net.eval()
        with torch.no_grad():
            acc = torch.cat([(net(x).argmax(1) == y).float() for x, y in val]).mean().item()
        print(f"epoch {epoch} val acc {acc:.4f}", flush=True)
        torch.save({"net": net.state_dict(), "opt": opt.state_dict(), "sched": sched.state_dict(), "epoch": epoch + 1}, args.ckpt)


if __name__ == "__main__":
    main()

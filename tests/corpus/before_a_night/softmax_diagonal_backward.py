"""Point cloud classification with attention pooling; softmax written as an own autograd function."""
import argparse
import os
import random

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

SHAPES = 6


def sample_shape(kind, n, rng):
    u, v = rng.random(n) * 2 * np.pi, rng.random(n)
    if kind == 0:
        p = rng.normal(size=(n, 3))
        p /= np.linalg.norm(p, axis=1, keepdims=True)
    elif kind == 1:
        p = np.stack([np.cos(u), np.sin(u), 2 * v - 1], 1)
    elif kind == 2:
        p = np.stack([(1 - v) * np.cos(u), (1 - v) * np.sin(u), 2 * v - 1], 1)
    elif kind == 3:
        p = rng.random((n, 3)) * 2 - 1
        p[np.arange(n), rng.integers(0, 3, n)] = rng.choice([-1.0, 1.0], n)
    elif kind == 4:
        w = v * 2 * np.pi
        p = np.stack([(1 + 0.35 * np.cos(w)) * np.cos(u), (1 + 0.35 * np.cos(w)) * np.sin(u), 0.35 * np.sin(w)], 1)
    else:
        p = np.stack([np.cos(2 * u) * v, np.sin(2 * u) * v, u / np.pi - 1], 1)
    a = rng.random() * 2 * np.pi
    rot = np.array([[np.cos(a), -np.sin(a), 0], [np.sin(a), np.cos(a), 0], [0, 0, 1]])
    return (p @ rot.T) * rng.uniform(0.8, 1.2) + rng.normal(0, 0.02, (n, 3))


def make_clouds(n, points, seed):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, SHAPES, n)
    x = np.stack([sample_shape(k, points, rng) for k in y]).astype(np.float32)
    return TensorDataset(torch.from_numpy(x), torch.from_numpy(y))


class SoftmaxFunction(torch.autograd.Function):
    """Softmax over the last dimension."""

    @staticmethod
    def forward(ctx, x):
        e = torch.exp(x - x.max(-1, keepdim=True).values)
        s = e / e.sum(-1, keepdim=True)
        ctx.save_for_backward(s)
        return s

    @staticmethod
    def backward(ctx, grad):
        (s,) = ctx.saved_tensors
        return grad * s * (1 - s)


class AttentionPool(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.score = nn.Linear(dim, heads, bias=False)

    def forward(self, h):
        w = SoftmaxFunction.apply(self.score(h).transpose(1, 2))
        return (w @ h).flatten(1)


class CloudNet(nn.Module):
    def __init__(self, dim=64, heads=6):
        super().__init__()
        self.mlp = nn.Sequential(nn.Linear(3, dim), nn.LayerNorm(dim), nn.ReLU(), nn.Linear(dim, dim), nn.ReLU(), nn.Linear(dim, dim))
        self.pool = AttentionPool(dim, heads)
        self.head = nn.Sequential(nn.LayerNorm(dim * heads), nn.Linear(dim * heads, 64), nn.ReLU(), nn.Linear(64, SHAPES))

    def forward(self, x):
        return self.head(self.pool(self.mlp(x)))


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=300)
    ap.add_argument("--batch-size", type=int, default=32)
    ap.add_argument("--lr", type=float, default=2e-3)
    ap.add_argument("--seed", type=int, default=4)
    ap.add_argument("--ckpt", default="cloud.pt")
    args = ap.parse_args()
    random.seed(args.seed)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)
    order = torch.Generator()
    train = DataLoader(make_clouds(800, 128, 1), args.batch_size, shuffle=True, generator=order)
    test = DataLoader(make_clouds(240, 128, 2), 64)
    net = CloudNet()
    opt = torch.optim.Adam(net.parameters(), lr=args.lr)
    sched = torch.optim.lr_scheduler.StepLR(opt, 100, gamma=0.3)
    start = 0
    if os.path.exists(args.ckpt):
        ck = torch.load(args.ckpt)
        net.load_state_dict(ck["net"])
        opt.load_state_dict(ck["opt"])
        sched.load_state_dict(ck["sched"])
        start = ck["epoch"]
        print("resumed at epoch", start)
    for epoch in range(start, args.epochs):
        order.manual_seed(args.seed + 613 * epoch)
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
            acc = torch.cat([(net(x).argmax(1) == y).float() for x, y in test]).mean().item()
        print(f"epoch {epoch} test acc {acc:.4f}", flush=True)
        torch.save({"net": net.state_dict(), "opt": opt.state_dict(), "sched": sched.state_dict(), "epoch": epoch + 1}, args.ckpt)


if __name__ == "__main__":
    main()

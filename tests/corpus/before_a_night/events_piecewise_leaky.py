"""Event-camera style gesture classification with leaky units whose activation is a piecewise leaky ReLU
(the smooth stage that precedes spiking fine-tuning)."""
import argparse
import os
import random

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=300)
parser.add_argument("--batch", type=int, default=32)
parser.add_argument("--lr", type=float, default=3e-3)
parser.add_argument("--w", type=float, default=0.5, help="half width of the linear part")
parser.add_argument("--c", type=float, default=0.01, help="slope of the leaky part")
parser.add_argument("--seed", type=int, default=8)
parser.add_argument("--ckpt", default="events.pt")

T, SIDE, CLASSES = 8, 10, 6


class piecewise_leaky_relu(torch.autograd.Function):
    """Rises linearly from 0 to 1 on [-w, w], with slope c outside."""

    @staticmethod
    def forward(ctx, x, w, c):
        ctx.save_for_backward(x)
        ctx.w, ctx.c = w, c
        inner = x / (2 * w) + 0.5
        return torch.where(x < -w, c * (x + w), torch.where(x > w, c * (x - w) + 1.0, inner))

    @staticmethod
    def backward(ctx, grad_output):
        x, = ctx.saved_tensors
        slope = torch.where(x.abs() > ctx.w, torch.full_like(x, ctx.c), torch.full_like(x, 1 / ctx.w))
        return grad_output * slope, None, None


class Leaky(nn.Module):
    """Leaky integration over time followed by the activation."""

    def __init__(self, w, c, tau=2.0):
        super().__init__()
        self.w, self.c, self.tau = w, c, tau

    def forward(self, seq):
        v = torch.zeros_like(seq[0])
        out = []
        for u in seq:
            v = v + (u - v) / self.tau
            out.append(piecewise_leaky_relu.apply(v - 0.5, self.w, self.c))
        return torch.stack(out)


class Net(nn.Module):
    def __init__(self, w, c):
        super().__init__()
        self.fc1 = nn.Linear(2 * SIDE * SIDE, 128)
        self.a1 = Leaky(w, c)
        self.fc2 = nn.Linear(128, 64)
        self.a2 = Leaky(w, c)
        self.fc3 = nn.Linear(64, CLASSES)

    def forward(self, x):
        h = x.flatten(2).transpose(0, 1)
        h = self.a1(self.fc1(h))
        h = self.a2(self.fc2(h))
        return self.fc3(h).mean(0)


def events(n, seed):
    """A bright bar moves in one of six ways; ON and OFF events where the brightness changes."""
    rng = np.random.default_rng(seed)
    y = rng.permutation(np.arange(n) % CLASSES)
    frames = np.zeros((n, T + 1, SIDE, SIDE), np.float32)
    for i in range(n):
        s, o = rng.uniform(0.8, 1.1), rng.uniform(0, 3)
        for t in range(T + 1):
            p = o + s * t
            k = [int(p) % SIDE, int(o - s * t) % SIDE]
            if y[i] == 0: frames[i, t, :, k[0]] = 1
            elif y[i] == 1: frames[i, t, :, k[1]] = 1
            elif y[i] == 2: frames[i, t, k[0], :] = 1
            elif y[i] == 3: frames[i, t, k[1], :] = 1
            elif y[i] == 4: frames[i, t, np.arange(SIDE), (np.arange(SIDE) + k[0]) % SIDE] = 1
            else: frames[i, t, np.arange(SIDE), (SIDE - np.arange(SIDE) + k[0]) % SIDE] = 1
    d = np.diff(frames, axis=1)
    ev = np.stack([(d > 0), (d < 0)], 2).astype(np.float32)
    ev += rng.normal(0, 0.05, ev.shape).astype(np.float32)
    return torch.from_numpy(ev), torch.from_numpy(y)


def main():
    a = parser.parse_args()
    random.seed(a.seed); np.random.seed(a.seed); torch.manual_seed(a.seed)
    gen = torch.Generator().manual_seed(a.seed)
    train = DataLoader(TensorDataset(*events(768, 1)), a.batch, shuffle=True, generator=gen)
    test = DataLoader(TensorDataset(*events(192, 2)), 96)
    net = Net(a.w, a.c)
    opt = torch.optim.Adam(net.parameters(), lr=a.lr)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, a.epochs)
    first = 0
    if os.path.exists(a.ckpt):
        s = torch.load(a.ckpt, weights_only=False)
        net.load_state_dict(s["net"])
        opt.load_state_dict(s["opt"])
        sched.load_state_dict(s["sched"])
        torch.set_rng_state(s["torch"]); np.random.set_state(s["numpy"]); random.setstate(s["python"]); gen.set_state(s["gen"])
        first = s["epoch"]
    for epoch in range(first, a.epochs):
        net.train()
        for i, (x, y) in enumerate(train):
            loss = F.cross_entropy(net(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            if i % 6 == 0:
                print(f"epoch {epoch} {i}/{len(train)} loss {loss.item():.4f}")
        sched.step()
        net.eval()
        with torch.no_grad():
            acc = torch.cat([(net(x).argmax(1) == y).float() for x, y in test]).mean().item()
        print(f"epoch {epoch} test acc {acc:.3f}")
        torch.save({"net": net.state_dict(), "opt": opt.state_dict(), "sched": sched.state_dict(), "epoch": epoch + 1,
                    "torch": torch.get_rng_state(), "numpy": np.random.get_state(), "python": random.getstate(),
                    "gen": gen.get_state()}, a.ckpt + ".tmp")
        os.replace(a.ckpt + ".tmp", a.ckpt)


if __name__ == "__main__":
    main()

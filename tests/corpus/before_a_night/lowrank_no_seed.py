"""Weight-decomposed low-rank adaptation of a frozen regression network."""
import argparse
import os

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset


class LowRankLinear(nn.Module):
    """W = m * (W0 + B A) / |W0 + B A| with W0 fixed."""

    def __init__(self, base, rank):
        super().__init__()
        self.register_buffer("weight", base.weight.detach().clone())
        self.bias = nn.Parameter(base.bias.detach().clone())
        self.m = nn.Parameter(self.weight.norm(dim=1, keepdim=True))
        self.a = nn.Parameter(torch.randn(rank, base.in_features) / base.in_features ** 0.5)
        self.b = nn.Parameter(torch.randn(base.out_features, rank) * 0.01)

    def forward(self, x):
        w = self.weight + self.b @ self.a
        return F.linear(x, self.m * w / w.norm(dim=1, keepdim=True), self.bias)


def build(dim, hidden):
    return nn.Sequential(nn.Linear(dim, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, 1))


def make_tables(n, dim, shift):
    rng = np.random.default_rng(4321)
    w1, w2 = rng.normal(0, 1, (dim, 12)) / dim ** 0.5, rng.normal(0, 1, 12)
    dw = rng.normal(0, 1, (dim, 12)) / dim ** 0.5
    rng = np.random.default_rng(7 + shift)
    x = rng.normal(0, 1, (n, dim))
    y = np.tanh(1.5 * x @ (w1 + 0.7 * shift * dw)) @ w2
    y = (y - y.mean()) / y.std()
    return torch.from_numpy(x.astype(np.float32)), torch.from_numpy(y.astype(np.float32))


def mix_features(x, p=0.1):
    """Replaces a few features by those of another row (numpy draws)."""
    mask = torch.from_numpy(np.random.rand(*x.shape) < p)
    return torch.where(mask, x[torch.from_numpy(np.random.permutation(len(x)))], x)


def pretrain(net, x, y, steps=120):
    opt = torch.optim.Adam(net.parameters(), lr=3e-3)
    for i in range(steps):
        j = (i * 64) % (len(x) - 64)
        loss = F.mse_loss(net(x[j:j + 64]).squeeze(-1), y[j:j + 64])
        opt.zero_grad()
        loss.backward()
        opt.step()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=1500)
    ap.add_argument("--batch-size", type=int, default=64)
    ap.add_argument("--lr", type=float, default=3e-3)
    ap.add_argument("--rank", type=int, default=8)
    ap.add_argument("--ckpt", default="adapter.pt")
    args = ap.parse_args()
    dim, hidden = 32, 192
    net = build(dim, hidden)
    if not os.path.exists(args.ckpt):
        pretrain(net, *make_tables(4000, dim, 0))
    for i in (0, 2, 4):
        net[i] = LowRankLinear(net[i], args.rank)
    x, y = make_tables(2000, dim, 1)
    train = DataLoader(TensorDataset(x[:1600], y[:1600]), args.batch_size, shuffle=True)
    xv, yv = x[1600:], y[1600:]
    opt = torch.optim.AdamW(net.parameters(), lr=args.lr)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, args.epochs, eta_min=1e-5)
    start = 0
    if os.path.exists(args.ckpt):
        ck = torch.load(args.ckpt, weights_only=False)
        net.load_state_dict(ck["net"])
        opt.load_state_dict(ck["opt"])
        sched.load_state_dict(ck["sched"])
        torch.set_rng_state(ck["torch_rng"])
        np.random.set_state(ck["numpy_rng"])
        start = ck["epoch"]
        print("resumed at epoch", start)
    for epoch in range(start, args.epochs):
        net.train()
        for step, (xb, yb) in enumerate(train):
            loss = F.mse_loss(net(mix_features(xb)).squeeze(-1), yb)
            opt.zero_grad()
            loss.backward()
            opt.step()
            if step % 5 == 0:
                print(f"epoch {epoch} step {step} loss {loss.item():.4f}", flush=True)
        sched.step()
        net.eval()
        with torch.no_grad():
            val = F.mse_loss(net(xv).squeeze(-1), yv).item()
        print(f"epoch {epoch} val mse {val:.4f}", flush=True)
        torch.save({"net": net.state_dict(), "opt": opt.state_dict(), "sched": sched.state_dict(), "epoch": epoch + 1,
                    "torch_rng": torch.get_rng_state(), "numpy_rng": np.random.get_state()}, args.ckpt)


if __name__ == "__main__":
    main()

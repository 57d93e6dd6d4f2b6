"""Multi-resolution front end for audio tagging: a fixed Haar pyramid, one learned filterbank per octave."""
import argparse
import os
import random

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

CLASSES = 8
LENGTH = 1024


def make_tones(n, seed):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, CLASSES, n)
    t = np.arange(LENGTH) / LENGTH
    f = 8.0 * 1.75 ** y * rng.uniform(0.92, 1.08, n)
    am = 1 + 0.5 * np.sin(2 * np.pi * rng.uniform(1, 4, n)[:, None] * t)
    x = am * np.sin(2 * np.pi * (f[:, None] * t + rng.random(n)[:, None])) + rng.normal(0, 0.4, (n, LENGTH))
    x = (x - x.mean(1, keepdims=True)) / x.std(1, keepdims=True)
    return TensorDataset(torch.from_numpy(x.astype(np.float32))[:, None], torch.from_numpy(y))


class OctaveBank(nn.Module):
    """Haar decomposition in J levels; the detail of each level goes through its own convolution."""

    def __init__(self, octaves=6, filters=8, width=8):
        super().__init__()
        self.octaves = octaves
        self.convs = nn.ModuleList(nn.Conv1d(1, filters, width, padding=width // 2) for _ in range(octaves))

    def forward(self, x):
        feats = []
        for j in range(self.octaves):
            even, odd = x[..., 0::2], x[..., 1::2]
            detail, x = (even - odd) / 2 ** 0.5, (even + odd) / 2 ** 0.5
            z = self.convs[j](detail)
            feats.append(torch.log1p(z.square().mean(-1)))
        return torch.cat(feats, 1)


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.bank = OctaveBank()
        self.fc1 = nn.Linear(6 * 8, 64)
        self.fc2 = nn.Linear(64, CLASSES)

    def forward(self, x):
        return self.fc2(F.relu(self.fc1(self.bank(x))))


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=400)
    ap.add_argument("--batch_size", type=int, default=32)
    ap.add_argument("--lr", type=float, default=3e-3)
    ap.add_argument("--seed", type=int, default=0)
    ap.add_argument("--ckpt", default="tagger.pt")
    args = ap.parse_args()
    random.seed(args.seed)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)

    order = torch.Generator()
    train = DataLoader(make_tones(800, 1), args.batch_size, shuffle=True, generator=order)
    val = DataLoader(make_tones(256, 2), 64)
    net = Tagger()
    opt = torch.optim.AdamW(net.parameters(), lr=args.lr, weight_decay=1e-4)
    start = 0
    if os.path.exists(args.ckpt):
        ck = torch.load(args.ckpt)
        net.load_state_dict(ck["net"])
        opt.load_state_dict(ck["opt"])
        start = ck["epoch"]
        print("resumed at epoch", start)
    for epoch in range(start, args.epochs):
        order.manual_seed(args.seed + 7919 * epoch)
        net.train()
        for step, (x, y) in enumerate(train):
            opt.zero_grad()
            loss = F.cross_entropy(net(x), y)
            loss.backward()
            opt.step()
            if step % 5 == 0:
                print(f"epoch {epoch} step {step} loss {loss.item():.4f}", flush=True)
        net.eval()
        with torch.no_grad():
            acc = torch.cat([(net(x).argmax(1) == y).float() for x, y in val]).mean().item()
        print(f"epoch {epoch} val acc {acc:.4f}", flush=True)
        torch.save({"net": net.state_dict(), "opt": opt.state_dict(), "epoch": epoch + 1}, args.ckpt)


if __name__ == "__main__":
    main()

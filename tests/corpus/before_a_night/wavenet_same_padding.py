"""WaveNet on synthetic plucked tones, mu-law quantised, next-sample prediction."""
import argparse
import os
import random

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

LEVELS = 64


def mu_law(x, mu=LEVELS - 1):
    y = np.sign(x) * np.log1p(mu * np.abs(x)) / np.log1p(mu)
    return ((y + 1) / 2 * mu + 0.5).astype(np.int64)


def tones(n, length, rng):
    t = np.arange(length) / 4000.0
    clips = []
    for _ in range(n):
        f0 = 110 * 2 ** (rng.integers(0, 12) / 12)
        wave = sum(rng.uniform(0.3, 1.0) / h * np.sin(2 * np.pi * f0 * h * t + rng.uniform(0, 6.28))
                   for h in (1, 2, 3))
        wave = wave * np.exp(-t * rng.uniform(1, 6))
        wave = 0.9 * wave / np.abs(wave).max() + rng.normal(0, 0.003, length)
        clips.append(mu_law(np.clip(wave, -1, 1)))
    return torch.from_numpy(np.stack(clips))


class Conv(nn.Module):
    """1-d convolution with the padding modes 'same' and 'causal'."""

    def __init__(self, cin, cout, kernel, dilation=1, padding="same"):
        super().__init__()
        self.conv = nn.Conv1d(cin, cout, kernel, dilation=dilation)
        total = dilation * (kernel - 1)
        self.pad = (total, 0) if padding == "causal" else (total // 2, total - total // 2)

    def forward(self, x):
        return self.conv(F.pad(x, self.pad))


class ResidualBlock(nn.Module):
    def __init__(self, channels, dilation, padding):
        super().__init__()
        self.filter = Conv(channels, channels, 2, dilation, padding)
        self.gate = Conv(channels, channels, 2, dilation, padding)
        self.res = nn.Conv1d(channels, channels, 1)
        self.skip = nn.Conv1d(channels, channels, 1)

    def forward(self, x):
        z = torch.tanh(self.filter(x)) * torch.sigmoid(self.gate(x))
        return x + self.res(z), self.skip(z)


class WaveNet(nn.Module):
    def __init__(self, channels=32, layers=7, padding="same"):
        super().__init__()
        self.embed = nn.Embedding(LEVELS, channels)
        self.blocks = nn.ModuleList(ResidualBlock(channels, 2 ** i, padding) for i in range(layers))
        self.post = nn.Sequential(nn.ReLU(), nn.Conv1d(channels, 64, 1), nn.ReLU(), nn.Conv1d(64, LEVELS, 1))

    def forward(self, samples):
        x = self.embed(samples).transpose(1, 2)
        skips = 0
        for block in self.blocks:
            x, s = block(x)
            skips = skips + s
        return self.post(skips)


def nll(model, clip):
    return F.cross_entropy(model(clip[:, :-1]), clip[:, 1:])


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--epochs", type=int, default=250)
    p.add_argument("--batch-size", type=int, default=8)
    p.add_argument("--clip-length", type=int, default=400)
    p.add_argument("--lr", type=float, default=2e-3)
    p.add_argument("--seed", type=int, default=17)
    p.add_argument("--checkpoint", default="wavenet.pt")
    args = p.parse_args()
    random.seed(args.seed)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)

    rng = np.random.default_rng(args.seed)
    gen = torch.Generator()
    train = DataLoader(TensorDataset(tones(200, args.clip_length, rng)), args.batch_size, shuffle=True, generator=gen)
    valid = DataLoader(TensorDataset(tones(40, args.clip_length, rng)), args.batch_size)

    model = WaveNet()
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, args.epochs * len(train), eta_min=2e-5)
    start = 0
    if os.path.exists(args.checkpoint):
        state = torch.load(args.checkpoint)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        scheduler.load_state_dict(state["scheduler"])
        start = state["epoch"] + 1
    for epoch in range(start, args.epochs):
        gen.manual_seed(args.seed + epoch)
        model.train()
        for i, (clip,) in enumerate(train):
            loss = nll(model, clip)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 5.0)
            optimizer.step()
            scheduler.step()
            if i % 5 == 0:
                print(f"epoch {epoch} batch {i}/{len(train)} nll {loss.item():.4f}", flush=True)
        model.eval()
        with torch.no_grad():
            val = sum(nll(model, clip).item() for (clip,) in valid) / len(valid)
        print(f"epoch {epoch} validation nll {val:.4f}", flush=True)
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(),
                    "scheduler": scheduler.state_dict(), "epoch": epoch}, args.checkpoint)


if __name__ == "__main__":
    main()

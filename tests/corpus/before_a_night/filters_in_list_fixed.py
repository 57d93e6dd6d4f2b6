"""Sound event classification with a multiresolution learnable filterbank (one set of filters per octave)."""
import argparse
import math
import os
import random

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

SR, LENGTH = 4000, 512


def synth(n, seed):
    """Eight classes: carrier low/high x slow/fast tremolo x rising/falling pitch."""
    g = torch.Generator().manual_seed(seed)
    t = torch.arange(LENGTH) / SR
    xs = torch.empty(n, 1, LENGTH)
    ys = torch.randint(0, 8, (n,), generator=g)
    for i, y in enumerate(ys.tolist()):
        u = torch.rand(5, generator=g)
        f0 = (250 + 80 * u[0]) if y & 1 else (700 + 150 * u[0])
        am = (15 + 5 * u[1]) if y & 2 else (50 + 15 * u[1])
        slope = (500 + 200 * u[2]) * (1 if y & 4 else -1)
        phase = 2 * math.pi * (f0 * t + 0.5 * slope * t ** 2) + 6.28 * u[3]
        env = 1 + 0.8 * torch.sin(2 * math.pi * am * t + 6.28 * u[4])
        xs[i, 0] = env * torch.sin(phase) + 0.9 * torch.randn(LENGTH, generator=g)
    return TensorDataset(xs / xs.std(), ys)


class OctaveFilterbank(nn.Module):
    """For each octave: low-pass and decimate, then q learnable filters, modulus, and averaging."""

    def __init__(self, octaves=3, q=8, taps=17):
        super().__init__()
        self.octaves = octaves
        lp = torch.hann_window(9, periodic=False)
        self.register_buffer("lowpass", (lp / lp.sum()).view(1, 1, -1))
        self.conv1d = nn.ModuleList()
        for _ in range(octaves):
            self.conv1d.append(nn.Conv1d(1, 2 * q, taps, padding=taps // 2, bias=False))
        self.out_channels = octaves * q

    def forward(self, x):
        feats = []
        for j in range(self.octaves):
            re, im = self.conv1d[j](x).chunk(2, dim=1)
            mod = torch.sqrt(re ** 2 + im ** 2 + 1e-4)
            feats.append(F.adaptive_avg_pool1d(mod, 32))
            x = F.conv1d(x, self.lowpass, padding=4)[:, :, ::2]
        return torch.log(torch.cat(feats, 1) + 1e-2)


class SoundNet(nn.Module):
    def __init__(self, classes=8):
        super().__init__()
        self.filterbank = OctaveFilterbank()
        c = self.filterbank.out_channels
        self.norm = nn.BatchNorm1d(c)
        self.temporal = nn.Sequential(nn.Conv1d(c, 32, 5, padding=2), nn.BatchNorm1d(32), nn.ReLU(), nn.MaxPool1d(4),
                                      nn.Conv1d(32, 32, 5, padding=2), nn.BatchNorm1d(32), nn.ReLU())
        self.head = nn.Linear(32 * 8, classes)

    def forward(self, x):
        h = self.temporal(self.norm(self.filterbank(x)))
        return self.head(h.flatten(1))


def accuracy(model, loader):
    model.eval()
    with torch.no_grad():
        hits = [(model(x).argmax(1) == y).float() for x, y in loader]
    return torch.cat(hits).mean().item()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=200)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--seed", type=int, default=2024)
    parser.add_argument("--resume", default="soundnet.pt")
    args = parser.parse_args()
    random.seed(args.seed)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)

    sampler = torch.Generator()
    train_loader = DataLoader(synth(480, 0), args.batch_size, shuffle=True, generator=sampler)
    valid_loader = DataLoader(synth(160, 1), 80)
    model = SoundNet()
    print("parameters:", sum(p.numel() for p in model.parameters()))
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=args.epochs)
    start = 0
    if os.path.exists(args.resume):
        ck = torch.load(args.resume)
        model.load_state_dict(ck["model"])
        optimizer.load_state_dict(ck["optimizer"])
        scheduler.load_state_dict(ck["scheduler"])
        torch.set_rng_state(ck["rng"])
        start = ck["epoch"]
    for epoch in range(start, args.epochs):
        model.train()
        sampler.manual_seed(args.seed + epoch)
        losses = []
        for x, y in train_loader:
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        scheduler.step()
        acc = accuracy(model, valid_loader)
        print(f"epoch {epoch} loss {sum(losses) / len(losses):.4f} valid acc {acc:.3f}", flush=True)
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(),
                    "scheduler": scheduler.state_dict(), "rng": torch.get_rng_state(), "epoch": epoch + 1}, args.resume)


if __name__ == "__main__":
    main()

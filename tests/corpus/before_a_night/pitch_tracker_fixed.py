"""Frame-wise pitch tracking: voicing decision and normalised log-f0 from a band spectrum."""
import argparse
import os
import random

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

SR, HOP, FRAMES, BANDS = 8000, 128, 40, 64


def synth(n, seed):
    """Gliding harmonic tones with unvoiced gaps; returns band energies, log-f0, confidence, voicing."""
    rng = np.random.default_rng(seed)
    t = np.arange(FRAMES * HOP) / SR
    window = np.hanning(2 * HOP)
    edges = np.linspace(3, 163, BANDS + 1).astype(int)
    feats, f0s, conf, voiced = [], [], [], []
    for _ in range(n):
        base, depth, rate = rng.uniform(110, 380), rng.uniform(0, 0.15), rng.uniform(1, 5)
        f0 = base * (1 + depth * np.sin(2 * np.pi * rate * t + rng.uniform(0, 6.3)))
        phase = 2 * np.pi * np.cumsum(f0) / SR
        on = np.repeat(np.repeat(rng.random(FRAMES // 5) > 0.35, 5), HOP)
        wave = on * sum(np.sin(h * phase) / h for h in range(1, 6)) + 0.1 * rng.normal(size=len(t))
        wave = np.pad(wave, (0, HOP))
        frames = np.stack([wave[i * HOP:i * HOP + 2 * HOP] for i in range(FRAMES)]) * window
        spec = np.abs(np.fft.rfft(frames, 4 * HOP)) ** 2
        feats.append(np.log(np.stack([spec[:, a:b].mean(1) for a, b in zip(edges[:-1], edges[1:])], 1) + 1e-3))
        v = on.reshape(FRAMES, HOP).mean(1)
        f0s.append(np.log2(f0.reshape(FRAMES, HOP).mean(1) / 220) * (v > 0))
        conf.append(v * rng.uniform(0.5, 1.0))
        voiced.append(v > 0.5)
    return [torch.tensor(np.array(a), dtype=torch.float32) for a in (feats, f0s, conf, voiced)]


class HuberLoss(torch.autograd.Function):
    """Element-wise Huber loss with an explicit gradient."""

    @staticmethod
    def forward(ctx, x, t, delta):
        diff = x - t
        ctx.save_for_backward(diff)
        ctx.delta = delta
        small = diff.abs() <= delta
        return torch.where(small, 0.5 * diff ** 2, delta * (diff.abs() - 0.5 * delta))

    @staticmethod
    def backward(ctx, gy):
        diff, = ctx.saved_tensors
        gx = diff.clamp(-ctx.delta, ctx.delta)
        gx = gy * gx
        return gx, -gx, None


class PitchNet(nn.Module):
    def __init__(self, bands, width=96):
        super().__init__()
        self.net = nn.Sequential(nn.Conv1d(bands, width, 5, padding=2), nn.GELU(),
                                 nn.Conv1d(width, width, 5, padding=2), nn.GELU(),
                                 nn.Conv1d(width, width, 3, padding=1), nn.GELU())
        self.f0 = nn.Conv1d(width, 1, 1)
        self.voicing = nn.Conv1d(width, 1, 1)

    def forward(self, x):
        h = self.net(x.transpose(1, 2))
        return self.f0(h).squeeze(1), self.voicing(h).squeeze(1)


def pitch_loss(model, batch, weight):
    feats, f0, conf, voiced = batch
    pred, logit = model(feats)
    regression = (conf * HuberLoss.apply(pred, f0, 0.5)).sum() / conf.sum()
    return weight * regression + F.binary_cross_entropy_with_logits(logit, voiced)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--epochs", type=int, default=800)
    p.add_argument("--batch", type=int, default=32)
    p.add_argument("--lr", type=float, default=1e-3)
    p.add_argument("--f0-weight", type=float, default=2.0)
    p.add_argument("--seed", type=int, default=16)
    p.add_argument("--save", default="pitchnet.pt")
    args = p.parse_args()
    random.seed(args.seed)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)

    train, val = synth(640, 1), synth(128, 2)
    mean, std = train[0].mean((0, 1)), train[0].std((0, 1))
    train[0], val[0] = (train[0] - mean) / std, (val[0] - mean) / std
    gen = torch.Generator()
    loader = DataLoader(TensorDataset(*train), args.batch, shuffle=True, generator=gen)
    val_loader = DataLoader(TensorDataset(*val), 64)

    model = PitchNet(train[0].shape[2])
    opt = torch.optim.Adam(model.parameters(), lr=args.lr)
    start = 0
    if os.path.exists(args.save):
        ck = torch.load(args.save)
        model.load_state_dict(ck["model"])
        opt.load_state_dict(ck["opt"])
        start = ck["epoch"] + 1
    for epoch in range(start, args.epochs):
        gen.manual_seed(args.seed + epoch)
        model.train()
        for i, batch in enumerate(loader):
            loss = pitch_loss(model, batch, args.f0_weight)
            opt.zero_grad()
            loss.backward()
            opt.step()
            if i % 5 == 0:
                print(f"epoch {epoch} it {i} loss {loss.item():.4f}", flush=True)
        model.eval()
        with torch.no_grad():
            err = [((model(b[0])[0] - b[1]).abs() * b[3]).sum().item() / b[3].sum().item() for b in val_loader]
        print(f"epoch {epoch} val f0 error {1200 * np.mean(err):.1f} cents", flush=True)
        torch.save({"model": model.state_dict(), "opt": opt.state_dict(), "epoch": epoch}, args.save)


if __name__ == "__main__":
    main()

"""Two-voice separation in the time domain with a small top-down attention separator."""
import argparse
import itertools
import os
import random

import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset

SR = 8000


def voice(rng, n, low):
    """A vowel-like harmonic voice with a gliding pitch and syllable envelope."""
    t = np.arange(n) / SR
    f0 = rng.uniform(90, 140) if low else rng.uniform(190, 260)
    f = f0 * (1 + 0.08 * np.sin(2 * np.pi * rng.uniform(1, 4) * t + rng.uniform(0, 6)))
    phase = 2 * np.pi * np.cumsum(f) / SR
    formants = rng.uniform([300, 900], [800, 2400])
    out = np.zeros(n)
    for h in range(1, 18):
        if h * f0 > 3600:
            break
        amp = sum(np.exp(-((h * f0 - fm) / 350) ** 2) for fm in formants) + 0.02
        out += amp * np.sin(h * phase)
    env = np.clip(np.sin(2 * np.pi * rng.uniform(2, 5) * t + rng.uniform(0, 6)) + 0.5, 0, None)
    out *= env
    return (out / (out.std() + 1e-6)).astype(np.float32)


class MixDataset(Dataset):
    def __init__(self, size, seconds, seed):
        self.size, self.n, self.seed = size, int(seconds * SR), seed

    def __len__(self):
        return self.size

    def __getitem__(self, i):
        rng = np.random.default_rng(self.seed * 1_000_003 + i)
        s1 = voice(rng, self.n, True)
        s2 = voice(rng, self.n, False) * 10 ** (rng.uniform(-3, 3) / 20)
        src = np.stack([s1, s2])
        if rng.random() < 0.5:
            src = src[::-1].copy()
        return torch.from_numpy(src.sum(0)), torch.from_numpy(src)


class ConvNorm(nn.Module):
    def __init__(self, cin, cout, k, stride=1, groups=1):
        super().__init__()
        self.conv = nn.Conv1d(cin, cout, k, stride, padding=(k - 1) // 2, groups=groups)
        self.norm = nn.GroupNorm(1, cout)
        self.act = nn.PReLU()

    def forward(self, x):
        return self.act(self.norm(self.conv(x)))


class PositionalEncoding(nn.Module):
    def __init__(self, ch, max_len=2000):
        super().__init__()
        pos = torch.arange(max_len).unsqueeze(1)
        div = torch.exp(torch.arange(0, ch, 2) * (-np.log(10000.0) / ch))
        pe = torch.zeros(max_len, ch)
        pe[:, 0::2], pe[:, 1::2] = torch.sin(pos * div), torch.cos(pos * div)
        self.register_buffer("pe", pe)

    def forward(self, x):
        return x + self.pe[:x.size(1)]


class GlobalAttention(nn.Module):
    def __init__(self, ch, heads=4):
        super().__init__()
        self.norm = nn.LayerNorm(ch)
        self.pos = PositionalEncoding(ch)
        self.attn = nn.MultiheadAttention(ch, heads)
        self.ffn = nn.Sequential(nn.LayerNorm(ch), nn.Linear(ch, 2 * ch), nn.ReLU(), nn.Linear(2 * ch, ch))

    def forward(self, x):
        x = x.transpose(1, 2)                      # B, T, C
        y = self.pos(self.norm(x))
        x = x + self.attn(y, y, y, need_weights=False)[0]
        x = x + self.ffn(x)
        return x.transpose(1, 2)


class UBlock(nn.Module):
    def __init__(self, ch):
        super().__init__()
        self.d1, self.d2 = ConvNorm(ch, ch, 5, 2, ch), ConvNorm(ch, ch, 5, 2, ch)
        self.glob = GlobalAttention(ch)
        self.mix = ConvNorm(ch, ch, 1)
        self.last = nn.Conv1d(ch, ch, 1)

    def forward(self, x):
        a = self.d1(x)
        b = self.d2(a)
        g = self.glob(b)
        a = self.mix(a) * torch.sigmoid(nn.functional.interpolate(g, a.size(-1)))
        return x + self.last(nn.functional.interpolate(a, x.size(-1)) + nn.functional.interpolate(g, x.size(-1)))


class Separator(nn.Module):
    def __init__(self, basis=96, ch=64, blocks=3, win=20):
        super().__init__()
        self.encoder = nn.Conv1d(1, basis, win, win // 2, bias=False)
        self.inp = nn.Sequential(nn.GroupNorm(1, basis), nn.Conv1d(basis, ch, 1))
        self.blocks = nn.ModuleList(UBlock(ch) for _ in range(blocks))
        self.mask = nn.Sequential(nn.PReLU(), nn.Conv1d(ch, basis * 2, 1), nn.Sigmoid())
        self.decoder = nn.ConvTranspose1d(basis, 1, win, win // 2, bias=False)

    def forward(self, mix):
        e = torch.relu(self.encoder(mix.unsqueeze(1)))
        h = self.inp(e)
        for b in self.blocks:
            h = b(h)
        m = self.mask(h).view(len(mix), 2, -1, e.size(-1))
        out = self.decoder((m * e.unsqueeze(1)).flatten(0, 1)).view(len(mix), 2, -1)
        return nn.functional.pad(out, (0, mix.size(-1) - out.size(-1)))


def si_snr(est, ref, eps=1e-8):
    est, ref = est - est.mean(-1, keepdim=True), ref - ref.mean(-1, keepdim=True)
    proj = (est * ref).sum(-1, keepdim=True) / (ref.pow(2).sum(-1, keepdim=True) + eps) * ref
    return 10 * torch.log10(proj.pow(2).sum(-1) / ((est - proj).pow(2).sum(-1) + eps) + eps)


def pit_loss(est, ref):
    scores = torch.stack([si_snr(est[:, list(p)], ref).mean(1) for p in itertools.permutations(range(2))])
    return -scores.max(0).values.mean()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=100)
    ap.add_argument("--batch_size", type=int, default=8)
    ap.add_argument("--seconds", type=float, default=0.5)
    ap.add_argument("--lr", type=float, default=1e-3)
    ap.add_argument("--seed", type=int, default=3)
    ap.add_argument("--exp_dir", default="exp_tda")
    args = ap.parse_args()
    random.seed(args.seed)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)
    os.makedirs(args.exp_dir, exist_ok=True)
    train = DataLoader(MixDataset(4000, args.seconds, 1), args.batch_size, shuffle=True, drop_last=True)
    valid = DataLoader(MixDataset(160, args.seconds, 2), args.batch_size)
    net = Separator()
    opt = torch.optim.Adam(net.parameters(), lr=args.lr)
    sched = torch.optim.lr_scheduler.ReduceLROnPlateau(opt, factor=0.5, patience=5)
    best = 1e9
    for epoch in range(args.epochs):
        net.train()
        for i, (mix, src) in enumerate(train):
            loss = pit_loss(net(mix), src)
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(net.parameters(), 5.0)
            opt.step()
            if i % 20 == 0:
                print(f"epoch {epoch} {i}/{len(train)} si-snr {-loss.item():.2f} dB", flush=True)
        net.eval()
        with torch.no_grad():
            val = np.mean([pit_loss(net(m), s).item() for m, s in valid])
        sched.step(val)
        print(f"epoch {epoch} valid si-snr {-val:.2f} dB", flush=True)
        if val < best:
            best = val
            torch.save(net.state_dict(), os.path.join(args.exp_dir, "best.pt"))


if __name__ == "__main__":
    main()

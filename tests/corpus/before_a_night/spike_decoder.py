"""Decode wheel velocity from binned spikes of a neural population with a small transformer."""
import argparse
import os
import random

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def simulate(n_trials, n_neurons=32, bins=40, seed=0):
    """Latent rhythm drives Poisson neurons; the wheel follows the latent state."""
    tuning = np.random.default_rng(5)
    gain, phase = tuning.normal(size=(2, n_neurons)), tuning.uniform(0, 2 * np.pi, n_neurons)
    rng = np.random.default_rng(seed)
    t = np.arange(bins) / bins
    freq, shift = rng.uniform(1, 3, n_trials), rng.uniform(0, 2 * np.pi, n_trials)
    ang = 2 * np.pi * freq[:, None] * t + shift[:, None]
    z = np.stack([np.sin(ang), np.cos(ang)])
    drive = np.einsum("kbt,kn->btn", z, gain) + 0.5 * np.sin(ang[..., None] + phase)
    spikes = rng.poisson(np.exp(np.clip(1.0 + 0.8 * drive, -4, 3)))
    wheel = z[0] * (1 + 0.3 * z[1])
    return torch.tensor(np.sqrt(spikes), dtype=torch.float32), torch.tensor(wheel, dtype=torch.float32)


class NeuralAttention(nn.Module):
    def __init__(self, dim, n_heads, dropout, use_flash=True):
        super().__init__()
        self.n_heads, self.use_flash = n_heads, use_flash
        self.query, self.key, self.value = nn.Linear(dim, dim), nn.Linear(dim, dim), nn.Linear(dim, dim)
        self.attn_dropout = dropout
        self.dropout = nn.Dropout(dropout)
        self.out_proj = nn.Linear(dim, dim)

    def forward(self, x):
        b, t, d = x.shape
        q = self.query(x).view(b, t, self.n_heads, -1).transpose(1, 2)
        k = self.key(x).view(b, t, self.n_heads, -1).transpose(1, 2)
        v = self.value(x).view(b, t, self.n_heads, -1).transpose(1, 2)
        if self.use_flash:
            out = F.scaled_dot_product_attention(q, k, v, dropout_p=self.attn_dropout)
        else:
            out = self.dropout((q @ k.transpose(-2, -1) / (d // self.n_heads) ** 0.5).softmax(-1)) @ v
        return self.out_proj(self.dropout(out.transpose(1, 2).reshape(b, t, d)))


class EncoderLayer(nn.Module):
    def __init__(self, dim, n_heads, dropout):
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.attn = NeuralAttention(dim, n_heads, dropout)
        self.mlp = nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim), nn.Dropout(dropout))

    def forward(self, x):
        x = x + self.attn(self.ln1(x))
        return x + self.mlp(self.ln2(x))


class NDT(nn.Module):
    def __init__(self, n_neurons, bins, dim=64, layers=3, heads=4, dropout=0.1):
        super().__init__()
        self.embed_spikes = nn.Linear(n_neurons, dim)
        self.embed_pos = nn.Parameter(0.02 * torch.randn(bins, dim))
        self.layers = nn.ModuleList(EncoderLayer(dim, heads, dropout) for _ in range(layers))
        self.out_norm = nn.LayerNorm(dim)
        self.decoder = nn.Linear(dim, 1)

    def forward(self, spikes):
        x = self.embed_spikes(spikes) + self.embed_pos
        for layer in self.layers:
            x = layer(x)
        return self.decoder(self.out_norm(x)).squeeze(-1)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--epochs", type=int, default=300)
    p.add_argument("--batch", type=int, default=32)
    p.add_argument("--lr", type=float, default=1e-3)
    p.add_argument("--seed", type=int, default=42)
    p.add_argument("--ckpt", default="ndt_last.pt")
    args = p.parse_args()
    random.seed(args.seed)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)

    train_x, train_y = simulate(640, seed=1)
    val_x, val_y = simulate(160, seed=2)
    mu, sd = train_x.mean((0, 1)), train_x.std((0, 1))
    train_x, val_x = (train_x - mu) / sd, (val_x - mu) / sd
    gen = torch.Generator()
    train_loader = DataLoader(TensorDataset(train_x, train_y), args.batch, shuffle=True, generator=gen)
    val_loader = DataLoader(TensorDataset(val_x, val_y), 80)

    model = NDT(train_x.shape[2], train_x.shape[1])
    opt = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=0.01)
    sched = torch.optim.lr_scheduler.OneCycleLR(opt, max_lr=args.lr, total_steps=args.epochs * len(train_loader),
                                                pct_start=0.02, div_factor=5)
    start = 0
    if os.path.exists(args.ckpt):
        state = torch.load(args.ckpt)
        for name, part in (("model", model), ("opt", opt), ("sched", sched)):
            part.load_state_dict(state[name])
        torch.set_rng_state(state["rng"])
        start = state["epoch"] + 1
    for epoch in range(start, args.epochs):
        gen.manual_seed(args.seed + epoch)
        model.train()
        for i, (x, y) in enumerate(train_loader):
            loss = F.mse_loss(model(x), y)
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            opt.step()
            sched.step()
            if i % 5 == 0:
                print(f"epoch {epoch} batch {i} loss {loss.item():.4f}", flush=True)
        model.eval()
        with torch.no_grad():
            mse = sum(F.mse_loss(model(x), y).item() * len(x) for x, y in val_loader) / len(val_x)
        print(f"epoch {epoch} val R2 {1 - mse / val_y.var().item():.3f}", flush=True)
        torch.save({"model": model.state_dict(), "opt": opt.state_dict(), "sched": sched.state_dict(),
                    "rng": torch.get_rng_state(), "epoch": epoch}, args.ckpt)


if __name__ == "__main__":
    main()

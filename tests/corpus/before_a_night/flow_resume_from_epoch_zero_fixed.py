"""Class-conditional flow model on small images (linear interpolant, velocity prediction)."""
import argparse
import copy
import os
import random
from time import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

SIZE, PATCH, CLASSES = 8, 2, 4


def make_images(n, seed):
    """Smooth blobs whose place depends on the class, scaled to [-1, 1]."""
    rng = np.random.default_rng(seed)
    labels = np.arange(n) % CLASSES
    rng.shuffle(labels)
    centers = np.array([[2, 2], [2, 5], [5, 2], [5, 5]])[labels] + rng.normal(0, 0.3, (n, 2))
    yy, xx = np.mgrid[:SIZE, :SIZE]
    d = (yy[None] - centers[:, 0, None, None]) ** 2 + (xx[None] - centers[:, 1, None, None]) ** 2
    images = 2 * np.exp(-d / (2 * rng.uniform(1.2, 1.8, (n, 1, 1)) ** 2)) - 1
    return TensorDataset(torch.tensor(images[:, None], dtype=torch.float32), torch.from_numpy(labels))


class Block(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm1 = nn.LayerNorm(dim, elementwise_affine=False)
        self.norm2 = nn.LayerNorm(dim, elementwise_affine=False)
        self.attn = nn.MultiheadAttention(dim, 4, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))
        self.modulation = nn.Linear(dim, 4 * dim)

    def forward(self, x, c):
        s1, b1, s2, b2 = self.modulation(c).unsqueeze(1).chunk(4, dim=-1)
        h = self.norm1(x) * (1 + s1) + b1
        x = x + self.attn(h, h, h, need_weights=False)[0]
        return x + self.mlp(self.norm2(x) * (1 + s2) + b2)


class VelocityTransformer(nn.Module):
    def __init__(self, dim=64, depth=2):
        super().__init__()
        self.embed = nn.Conv2d(1, dim, PATCH, stride=PATCH)
        self.pos = nn.Parameter(torch.randn(1, (SIZE // PATCH) ** 2, dim) * 0.1)
        self.time = nn.Sequential(nn.Linear(16, dim), nn.SiLU(), nn.Linear(dim, dim))
        self.label = nn.Embedding(CLASSES, dim)
        self.blocks = nn.ModuleList(Block(dim) for _ in range(depth))
        self.out = nn.ConvTranspose2d(dim, 1, PATCH, stride=PATCH)

    def forward(self, x, t, y):
        freqs = 2.0 ** torch.arange(8) * 0.5
        ang = t[:, None] * freqs[None]
        c = self.time(torch.cat([ang.sin(), ang.cos()], 1)) + self.label(y)
        h = self.embed(x)
        hw = h.shape[-2:]
        h = h.flatten(2).transpose(1, 2) + self.pos
        for block in self.blocks:
            h = block(h, c)
        return self.out(h.transpose(1, 2).unflatten(2, hw))


def flow_loss(model, x1, y, rng=None):
    x0 = torch.randn(x1.shape, generator=rng)
    t = torch.rand(len(x1), generator=rng)
    s = t.view(-1, 1, 1, 1)
    return F.mse_loss(model((1 - s) * x0 + s * x1, t, y), x1 - x0)


@torch.no_grad()
def update_ema(ema, model, decay):
    for e, p in zip(ema.parameters(), model.parameters()):
        e.lerp_(p, 1 - decay)


@torch.no_grad()
def validate(model, loader):
    model.eval()
    rng = torch.Generator().manual_seed(0)
    losses = [flow_loss(model, x, y, rng).item() for x, y in loader]
    return sum(losses) / len(losses)


def main(args):
    random.seed(args.global_seed)
    np.random.seed(args.global_seed)
    torch.manual_seed(args.global_seed)
    os.makedirs(args.results_dir, exist_ok=True)
    path = os.path.join(args.results_dir, "last.pt")

    generator = torch.Generator().manual_seed(args.global_seed)
    loader = DataLoader(make_images(1280, 1), args.batch_size, shuffle=True, generator=generator)
    val_loader = DataLoader(make_images(256, 2), args.batch_size)
    model = VelocityTransformer()
    ema = copy.deepcopy(model).requires_grad_(False)
    opt = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=0)

    train_steps, first_epoch = 0, 0
    if os.path.exists(path):
        checkpoint = torch.load(path)
        model.load_state_dict(checkpoint["model"])
        ema.load_state_dict(checkpoint["ema"])
        opt.load_state_dict(checkpoint["opt"])
        generator.set_state(checkpoint["generator"])
        torch.set_rng_state(checkpoint["rng"])
        train_steps, first_epoch = checkpoint["train_steps"], checkpoint["epoch"] + 1
        print(f"Resumed from {path}")

    for epoch in range(first_epoch, args.epochs):
        model.train()
        running_loss, start = 0.0, time()
        for x, y in loader:
            loss = flow_loss(model, x, y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            update_ema(ema, model, args.ema_decay)
            running_loss += loss.item()
            train_steps += 1
        print(f"(epoch={epoch:04d} step={train_steps:07d}) Train Loss: {running_loss / len(loader):.4f}, "
              f"Val Loss: {validate(model, val_loader):.4f}, Steps/Sec: {len(loader) / (time() - start):.1f}", flush=True)
        checkpoint = {
            "model": model.state_dict(),
            "ema": ema.state_dict(),
            "opt": opt.state_dict(),
            "generator": generator.get_state(),
            "rng": torch.get_rng_state(),
            "train_steps": train_steps,
            "epoch": epoch,
        }
        torch.save(checkpoint, path)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--results-dir", type=str, default="results")
    parser.add_argument("--epochs", type=int, default=300)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--ema-decay", type=float, default=0.995)
    parser.add_argument("--global-seed", type=int, default=0)
    main(parser.parse_args())

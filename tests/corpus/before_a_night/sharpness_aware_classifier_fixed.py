"""Residual network on small colour textures, trained with sharpness aware minimisation."""
import argparse
import os
import random

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class SAM(torch.optim.Optimizer):
    """Sharpness aware minimisation around a base optimizer (two forward-backward passes per step)."""

    def __init__(self, params, base_optimizer, rho=0.05, **kwargs):
        super().__init__(params, dict(rho=rho, **kwargs))
        self.base_optimizer = base_optimizer(self.param_groups, **kwargs)
        self.param_groups = self.base_optimizer.param_groups
        self.perturbation = {}

    @torch.no_grad()
    def first_step(self):
        grads = [p.grad.norm() for g in self.param_groups for p in g["params"] if p.grad is not None]
        norm = torch.stack(grads).norm() + 1e-12
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    self.perturbation[p] = p.grad * (group["rho"] / norm)
                    p.add_(self.perturbation[p])
        self.zero_grad()

    @torch.no_grad()
    def second_step(self):
        for p, e in self.perturbation.items():
            p.sub_(e)
        self.perturbation.clear()
        self.base_optimizer.step()
        self.zero_grad()

    def step(self, closure=None):
        raise NotImplementedError("use first_step and second_step")

    def state_dict(self):
        return self.base_optimizer.state_dict()

    def load_state_dict(self, state_dict):
        self.base_optimizer.load_state_dict(state_dict)
        self.param_groups = self.base_optimizer.param_groups


def make_textures(n, seed):
    """Eight classes: orientation and frequency of a grating, random phase, colour and contrast."""
    rng = np.random.default_rng(seed)
    yy, xx = np.mgrid[:16, :16]
    y = rng.integers(0, 8, n)
    x = np.empty((n, 3, 16, 16), np.float32)
    for i, c in enumerate(y):
        ang = np.pi / 4 * (c % 4) + rng.normal(0, 0.08)
        freq = (1.0, 1.9)[c // 4]
        wave = np.sin(freq * (np.cos(ang) * xx + np.sin(ang) * yy) + rng.uniform(0, 6.3))
        x[i] = rng.uniform(0.4, 1, 3)[:, None, None] * wave + 0.4 * rng.normal(size=(3, 16, 16))
    return torch.from_numpy(x), torch.from_numpy(y)


class Residual(nn.Module):
    def __init__(self, ch):
        super().__init__()
        self.a, self.b = nn.Conv2d(ch, ch, 3, padding=1), nn.Conv2d(ch, ch, 3, padding=1)
        self.n1, self.n2 = nn.GroupNorm(4, ch), nn.GroupNorm(4, ch)

    def forward(self, x):
        return F.relu(x + self.n2(self.b(F.relu(self.n1(self.a(x))))))


class WideNet(nn.Module):
    def __init__(self, ch=24, classes=8):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, ch, 3, padding=1), nn.ReLU(), Residual(ch), nn.MaxPool2d(2),
                                  Residual(ch), nn.MaxPool2d(2))
        self.head = nn.Linear(ch, classes)

    def forward(self, x):
        return self.head(self.body(x).mean((2, 3)))


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--epochs", type=int, default=200)
    p.add_argument("--batch-size", type=int, default=32)
    p.add_argument("--learning-rate", type=float, default=0.03)
    p.add_argument("--momentum", type=float, default=0.9)
    p.add_argument("--rho", type=float, default=0.05)
    p.add_argument("--seed", type=int, default=42)
    p.add_argument("--checkpoint", default="sam_last.pt")
    args = p.parse_args()
    random.seed(args.seed)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)

    train_x, train_y = make_textures(640, 1)
    val_x, val_y = make_textures(200, 2)
    std = train_x.std()
    gen = torch.Generator()
    loader = DataLoader(TensorDataset(train_x / std, train_y), args.batch_size, shuffle=True, generator=gen)
    val_loader = DataLoader(TensorDataset(val_x / std, val_y), 100)
    model = WideNet()
    optimizer = SAM(model.parameters(), torch.optim.SGD, rho=args.rho, lr=args.learning_rate,
                    momentum=args.momentum, weight_decay=5e-4)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer.base_optimizer, args.epochs)
    start = 0
    if os.path.exists(args.checkpoint):
        ck = torch.load(args.checkpoint)
        model.load_state_dict(ck["model"])
        optimizer.load_state_dict(ck["optimizer"])
        scheduler.load_state_dict(ck["scheduler"])
        start = ck["epoch"]
        print(f"resume at epoch {start}")

    for epoch in range(start, args.epochs):
        gen.manual_seed(args.seed + epoch)
        model.train()
        for i, (x, y) in enumerate(loader):
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            optimizer.first_step()
            F.cross_entropy(model(x), y).backward()
            optimizer.second_step()
            if i % 5 == 0:
                print(f"epoch {epoch} batch {i} loss {loss.item():.4f}", flush=True)
        scheduler.step()
        model.eval()
        with torch.no_grad():
            acc = np.mean([(model(x).argmax(1) == y).float().mean().item() for x, y in val_loader])
        print(f"epoch {epoch} val accuracy {acc:.3f}", flush=True)
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(),
                    "scheduler": scheduler.state_dict(), "epoch": epoch + 1}, args.checkpoint)


if __name__ == "__main__":
    main()

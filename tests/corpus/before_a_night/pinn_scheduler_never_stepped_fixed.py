"""Ensemble of physics-informed networks for a 1-D reaction-diffusion boundary value problem."""
import argparse
import math
import os
import random

import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

K = 2.0


def exact(x):
    return torch.sin(math.pi * x) + 0.3 * torch.sin(2 * math.pi * x)


def source(x):
    """f such that u'' - K u = f holds for the exact solution."""
    s1, s2 = torch.sin(math.pi * x), torch.sin(2 * math.pi * x)
    return -(math.pi ** 2 + K) * s1 - 0.3 * (4 * math.pi ** 2 + K) * s2


class FeedForward(nn.Module):
    def __init__(self, width=48):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(1, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh(),
                                    nn.Linear(width, width), nn.Tanh(), nn.Linear(width, 1))

    def forward(self, x):
        return self.layers(x)


class EnsembleSolver:
    """Each member has its own model, optimizer and scheduler; optimisation is manual."""

    def __init__(self, members, lr, total_steps):
        self.models = [FeedForward() for _ in range(members)]
        self.optimizers = [torch.optim.Adam(m.parameters(), lr=lr) for m in self.models]
        self.schedulers = [torch.optim.lr_scheduler.OneCycleLR(o, max_lr=lr, total_steps=total_steps, pct_start=0.005)
                           for o in self.optimizers]

    @staticmethod
    def loss(model, x):
        x = x.requires_grad_(True)
        u = model(x)
        (du,) = torch.autograd.grad(u.sum(), x, create_graph=True)
        (ddu,) = torch.autograd.grad(du.sum(), x, create_graph=True)
        residual = ddu - K * u - source(x)
        ends = torch.tensor([[0.0], [1.0]])
        return (residual / 5).pow(2).mean() + 5.0 * model(ends).pow(2).mean()

    def training_step(self, x):
        losses = []
        for model, optimizer, scheduler in zip(self.models, self.optimizers, self.schedulers):
            loss = self.loss(model, x.clone())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            scheduler.step()
            losses.append(loss.item())
        return sum(losses) / len(losses)

    def train(self, mode=True):
        for model in self.models:
            model.train(mode)

    @torch.no_grad()
    def validate(self, loader):
        self.train(False)
        err = 0.0
        for (x,) in loader:
            pred = torch.stack([m(x) for m in self.models]).mean(0)
            err += (pred - exact(x)).pow(2).sum().item()
        self.train(True)
        return math.sqrt(err / len(loader.dataset))

    def state_dict(self):
        return {k: [o.state_dict() for o in getattr(self, k)] for k in ("models", "optimizers", "schedulers")}

    def load_state_dict(self, state):
        for k, items in state.items():
            for obj, s in zip(getattr(self, k), items):
                obj.load_state_dict(s)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=400)
    parser.add_argument("--points", type=int, default=2000)
    parser.add_argument("--batch_size", type=int, default=100)
    parser.add_argument("--members", type=int, default=2)
    parser.add_argument("--lr", type=float, default=5e-3)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--ckpt", default="pinn_ensemble.pt")
    args = parser.parse_args()
    random.seed(args.seed)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)

    points = torch.rand(args.points, 1)
    grid = torch.linspace(0, 1, 201)[:, None]
    generator = torch.Generator().manual_seed(args.seed)
    loader = DataLoader(TensorDataset(points), args.batch_size, shuffle=True, generator=generator)
    val_loader = DataLoader(TensorDataset(grid), 256)
    solver = EnsembleSolver(args.members, args.lr, total_steps=args.epochs * len(loader))
    start = 0
    if os.path.exists(args.ckpt):
        state = torch.load(args.ckpt)
        solver.load_state_dict(state["solver"])
        generator.set_state(state["generator"])
        torch.set_rng_state(state["rng"])
        start = state["epoch"] + 1
    for epoch in range(start, args.epochs):
        solver.train()
        total = sum(solver.training_step(x) for (x,) in loader) / len(loader)
        rate = solver.optimizers[0].param_groups[0]["lr"]
        print(f"epoch {epoch} loss {total:.5f} rmse {solver.validate(val_loader):.5f} lr {rate:.2e}", flush=True)
        torch.save({"solver": solver.state_dict(), "generator": generator.get_state(),
                    "rng": torch.get_rng_state(), "epoch": epoch}, args.ckpt)


if __name__ == "__main__":
    main()

"""Behaviour cloning: a policy network learns the actions of a scripted expert in a lander-like control task."""
import argparse
import os
import random

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

ap = argparse.ArgumentParser()
ap.add_argument("--epochs", type=int, default=600)
ap.add_argument("--batch-size", type=int, default=256)
ap.add_argument("--lr", type=float, default=1e-3)
ap.add_argument("--seed", type=int, default=6)
ap.add_argument("--checkpoint", default="policy.pt")


def expert(s):
    """0 nothing, 1 left engine, 2 main engine, 3 right engine."""
    x, y, vx, vy, angle, omega = s
    target = np.clip(0.5 * x + 1.0 * vx, -0.4, 0.4)
    turn = (target - angle) * 0.5 - omega * 1.0
    hover = (abs(x) * 0.55 - y) * 0.5 - vy * 0.5
    if hover > abs(turn) and hover > 0.05:
        return 2
    if turn < -0.05:
        return 3
    if turn > 0.05:
        return 1
    return 0


def rollouts(n_steps, seed):
    rng = np.random.default_rng(seed)
    states, actions = [], []
    while len(states) < n_steps:
        s = np.array([rng.uniform(-1, 1), rng.uniform(0.6, 1.4), rng.normal(0, .5), rng.normal(-.2, .3), rng.normal(0, .3), rng.normal(0, .3)])
        for _ in range(60):
            a = expert(s)
            states.append(s.copy())
            actions.append(a)
            if rng.random() < 0.15:
                a = rng.integers(4)
            x, y, vx, vy, angle, omega = s
            thrust = 0.12 if a == 2 else 0.0
            vx += -np.sin(angle) * thrust + rng.normal(0, 0.01)
            vy += np.cos(angle) * thrust - 0.05 + rng.normal(0, 0.01)
            omega += {1: 0.08, 3: -0.08}.get(int(a), 0.0)
            s = np.array([x + 0.1 * vx, y + 0.1 * vy, vx, vy, angle + 0.1 * omega, omega])
            if s[1] < 0 or abs(s[0]) > 2:
                break
    return np.array(states[:n_steps], np.float32), np.array(actions[:n_steps], np.int64)


class Policy(nn.Module):
    def __init__(self, hidden=192):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(6, hidden), nn.SiLU(), nn.Linear(hidden, hidden), nn.SiLU(), nn.Linear(hidden, 4))

    def forward(self, s):
        return self.net(s)


def training_loop(model, optimizer, loader, first_epoch, epochs, on_epoch_end):
    for epoch in range(first_epoch, epochs):
        model.train()
        total = 0.0
        for i, (s, a) in enumerate(loader):
            loss = F.cross_entropy(model(s), a)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
            if i % 6 == 0:
                print(f"epoch {epoch} step {i} loss {loss.item():.4f}")
        on_epoch_end(epoch, total / len(loader))


def main():
    args = ap.parse_args()
    random.seed(args.seed)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)
    s, a = rollouts(6144, 1)
    vs, va = rollouts(1536, 2)
    mean, std = s.mean(0), s.std(0)
    gen = torch.Generator().manual_seed(args.seed)
    train = DataLoader(TensorDataset(torch.from_numpy((s - mean) / std), torch.from_numpy(a)), args.batch_size, shuffle=True, generator=gen)
    vs, va = torch.from_numpy((vs - mean) / std), torch.from_numpy(va)
    model = Policy()
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
    first = 0
    if os.path.exists(args.checkpoint):
        ck = torch.load(args.checkpoint, weights_only=False)
        model.load_state_dict(ck["model_state_dict"])
        optimizer.load_state_dict(ck["optimizer_state_dict"])
        first = ck["epoch"]
        torch.set_rng_state(ck["rng"]["torch"])
        np.random.set_state(ck["rng"]["numpy"])
        random.setstate(ck["rng"]["python"])
        gen.set_state(ck["rng"]["loader"])
        print("resumed at epoch", first)

    def save(epoch, train_loss):
        model.eval()
        with torch.no_grad():
            out = model(vs)
            acc = (out.argmax(1) == va).float().mean().item()
        print(f"epoch {epoch} train {train_loss:.4f} val {F.cross_entropy(out, va).item():.4f} agreement {acc:.3f}")
        torch.save({"model_state_dict": model.state_dict(), "optimizer_state_dict": optimizer.state_dict(), "epoch": epoch + 1,
                    "rng": {"torch": torch.get_rng_state(), "numpy": np.random.get_state(), "python": random.getstate(),
                            "loader": gen.get_state()}}, args.checkpoint + ".tmp")
        os.replace(args.checkpoint + ".tmp", args.checkpoint)

    training_loop(model, optimizer, train, first, args.epochs, save)


if __name__ == "__main__":
    main()

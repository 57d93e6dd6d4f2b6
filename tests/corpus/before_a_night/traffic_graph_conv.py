"""Traffic speed forecasting on a road graph with spatio-temporal graph convolutions."""
import argparse
import os
import random

import numpy as np
import torch
from torch import nn, optim
from torch.utils.data import DataLoader, TensorDataset

N_VERTEX, N_HIS, N_PRED = 40, 12, 3


def road_network(seed=3):
    rng = np.random.default_rng(seed)
    pos = rng.random((N_VERTEX, 2))
    dist = np.linalg.norm(pos[:, None] - pos[None], axis=-1)
    adj = np.exp(-(dist / 0.15) ** 2) * (dist < 0.3)
    d = adj.sum(1) ** -0.5
    return torch.tensor(d[:, None] * adj * d[None], dtype=torch.float32)


def simulate(adj, days, seed=4, per_day=144):
    """Daily rhythm per sensor plus congestion that spreads along the graph."""
    rng = np.random.default_rng(seed)
    a = adj.numpy() / adj.numpy().sum(1, keepdims=True)
    peak = rng.normal(0.35, 0.05, N_VERTEX)
    jam, speed = np.zeros(N_VERTEX), []
    for t in range(days * per_day):
        hour = (t % per_day) / per_day
        rush = np.exp(-((hour - peak) / 0.07) ** 2) + np.exp(-((hour - peak - 0.38) / 0.08) ** 2)
        jam = 0.92 * (a @ jam) + (rng.random(N_VERTEX) < 0.01) * rng.uniform(2, 4, N_VERTEX)
        speed.append(60 - 18 * rush - 5 * jam + 0.3 * rng.normal(size=N_VERTEX))
    return np.array(speed, np.float32)


def windows(series):
    x = np.stack([series[i:i + N_HIS] for i in range(len(series) - N_HIS - N_PRED + 1)])
    y = np.stack([series[i + N_HIS + N_PRED - 1] for i in range(len(x))])
    return TensorDataset(torch.from_numpy(x)[:, None], torch.from_numpy(y))


class STConvBlock(nn.Module):
    def __init__(self, c_in, c_mid, c_out, gso, droprate):
        super().__init__()
        self.register_buffer("gso", gso)
        self.t1 = nn.Conv2d(c_in, 2 * c_mid, (3, 1))
        self.g = nn.Linear(2 * c_mid, c_mid)
        self.t2 = nn.Conv2d(c_mid, 2 * c_out, (3, 1))
        self.norm = nn.LayerNorm([N_VERTEX, c_out])
        self.drop = nn.Dropout(droprate)

    def forward(self, x):
        x = nn.functional.glu(self.t1(x), 1).permute(0, 2, 3, 1)
        h = torch.cat([x, torch.einsum("ij,btjc->btic", self.gso, x)], -1)
        x = (torch.relu(self.g(h)) + x).permute(0, 3, 1, 2)
        x = nn.functional.glu(self.t2(x), 1)
        return self.drop(self.norm(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2))


class STGCN(nn.Module):
    def __init__(self, gso, droprate):
        super().__init__()
        self.blocks = nn.Sequential(STConvBlock(1, 16, 32, gso, droprate), STConvBlock(32, 16, 32, gso, droprate))
        self.out = nn.Conv2d(32, 64, (N_HIS - 8, 1))
        self.fc = nn.Linear(64, 1)

    def forward(self, x):
        h = torch.relu(self.out(self.blocks(x)))
        return self.fc(h.squeeze(2).transpose(1, 2)).squeeze(-1)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--epochs", type=int, default=400)
    p.add_argument("--batch-size", type=int, default=32)
    p.add_argument("--lr", type=float, default=2e-3)
    p.add_argument("--droprate", type=float, default=0.05)
    p.add_argument("--step-size", type=int, default=10)
    p.add_argument("--gamma", type=float, default=0.95)
    p.add_argument("--seed", type=int, default=42)
    p.add_argument("--save", default="stgcn.pt")
    args = p.parse_args()
    random.seed(args.seed)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)

    gso = road_network()
    speed = simulate(gso, days=7)
    cut = 5 * 144
    mean, std = speed[:cut].mean(), speed[:cut].std()
    scaled = (speed - mean) / std
    train, val = windows(scaled[:cut]), windows(scaled[cut:])
    gen = torch.Generator()
    train_iter = DataLoader(train, args.batch_size, shuffle=True, generator=gen)
    val_iter = DataLoader(val, 96)

    model = STGCN(gso, args.droprate)
    loss_fn = nn.MSELoss()
    optimizer = optim.Adam(model.parameters(), lr=args.lr, weight_decay=1e-4)
    scheduler = optim.lr_scheduler.StepLR(optimizer, step_size=args.step_size, gamma=args.gamma)
    start = 0
    if os.path.exists(args.save):
        ck = torch.load(args.save)
        model.load_state_dict(ck["model"])
        optimizer.load_state_dict(ck["optimizer"])
        scheduler.load_state_dict(ck["scheduler"])
        torch.set_rng_state(ck["rng"])
        start = ck["epoch"] + 1

    for epoch in range(start, args.epochs):
        gen.manual_seed(args.seed + epoch)
        model.train()
        for i, (x, y) in enumerate(train_iter):
            loss = loss_fn(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            scheduler.step()
            if i % 5 == 0:
                print(f"epoch {epoch} it {i} loss {loss.item():.4f} lr {scheduler.get_last_lr()[0]:.2e}", flush=True)
        model.eval()
        with torch.no_grad():
            mae = torch.cat([(model(x) - y).abs() for x, y in val_iter]).mean().item() * std
        print(f"epoch {epoch} val mae {mae:.3f} mph", flush=True)
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(),
                    "scheduler": scheduler.state_dict(), "rng": torch.get_rng_state(), "epoch": epoch}, args.save)


if __name__ == "__main__":
    main()

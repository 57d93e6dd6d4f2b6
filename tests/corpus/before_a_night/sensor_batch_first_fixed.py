"""Transformer encoder that predicts the next value of multivariate machine-sensor windows."""
import argparse
import os
import random

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

ap = argparse.ArgumentParser()
ap.add_argument("--epochs", type=int, default=400)
ap.add_argument("--batch-size", type=int, default=32)
ap.add_argument("--window", type=int, default=24)
ap.add_argument("--lr", type=float, default=1e-3)
ap.add_argument("--seed", type=int, default=99)
ap.add_argument("--ckpt", default="sensors.pth")


def windows(n, window, seed):
    rng = np.random.default_rng(seed)
    t = np.arange(window + 1)
    f = rng.uniform(0.15, 0.6, (n, 1))
    ph = rng.uniform(0, 2 * np.pi, (n, 1))
    a = rng.uniform(0.5, 1.5, (n, 1))
    drift = rng.uniform(-0.03, 0.03, (n, 1))
    s0 = a * np.sin(f * t + ph) + drift * t
    s1 = a * np.cos(f * t + ph)
    s2 = drift * t * 10
    x = np.stack([s0, s1, s2], -1) + 0.01 * rng.normal(size=(n, window + 1, 3))
    return x[:, :window].astype(np.float32), x[:, window, 0].astype(np.float32)


class SensorTransformer(nn.Module):
    def __init__(self, n_features, window, d_model=64, heads=4, layers=2):
        super().__init__()
        self.embedding = nn.Linear(n_features, d_model)
        self.position = nn.Parameter(0.02 * torch.randn(1, window, d_model))
        layer = nn.TransformerEncoderLayer(d_model, heads, 128, dropout=0.0, activation="gelu", batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.output = nn.Linear(d_model, 1)

    def forward(self, x):
        h = self.encoder(self.embedding(x) + self.position)
        return self.output(h[:, -1]).squeeze(-1)


def main():
    args = ap.parse_args()
    random.seed(args.seed)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)
    xtr, ytr = windows(768, args.window, 1)
    xva, yva = windows(256, args.window, 2)
    mu, sd = xtr.mean((0, 1)), xtr.std((0, 1))
    xtr, xva = (xtr - mu) / sd, (xva - mu) / sd
    ym, ys = ytr.mean(), ytr.std()
    ytr, yva = (ytr - ym) / ys, (yva - ym) / ys
    gen = torch.Generator().manual_seed(args.seed)
    train = DataLoader(TensorDataset(torch.from_numpy(xtr), torch.from_numpy(ytr)), args.batch_size, shuffle=True, generator=gen)
    val = DataLoader(TensorDataset(torch.from_numpy(xva), torch.from_numpy(yva)), 64)
    model = SensorTransformer(3, args.window)
    criterion = nn.MSELoss()
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, args.epochs)
    start = 0
    if os.path.exists(args.ckpt):
        ck = torch.load(args.ckpt, weights_only=False)
        model.load_state_dict(ck["model"])
        optimizer.load_state_dict(ck["optimizer"])
        scheduler.load_state_dict(ck["scheduler"])
        gen.set_state(ck["gen"])
        torch.set_rng_state(ck["torch"])
        np.random.set_state(ck["numpy"])
        random.setstate(ck["python"])
        start = ck["epoch"]
    for epoch in range(start, args.epochs):
        model.train()
        run = 0.0
        for i, (x, y) in enumerate(train):
            loss = criterion(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            run += loss.item()
            if i % 6 == 0:
                print(f"epoch {epoch} [{i}/{len(train)}] mse {loss.item():.4f}")
        scheduler.step()
        model.eval()
        with torch.no_grad():
            v = np.mean([criterion(model(x), y).item() for x, y in val])
        print(f"epoch {epoch} train mse {run / len(train):.4f} val mse {v:.4f}")
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "scheduler": scheduler.state_dict(),
                    "epoch": epoch + 1, "gen": gen.get_state(), "torch": torch.get_rng_state(),
                    "numpy": np.random.get_state(), "python": random.getstate()}, args.ckpt + ".tmp")
        os.replace(args.ckpt + ".tmp", args.ckpt)


if __name__ == "__main__":
    main()

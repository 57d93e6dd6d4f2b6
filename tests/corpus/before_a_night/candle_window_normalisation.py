"""Fine-tune a candle predictor: given a look-back window, forecast the next bars."""
import argparse
import os
import random

import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset

FEATURES = ["close", "volume"]


class Config:
    lookback_window = 48
    predict_window = 12
    clip = 5.0
    seed = 100


def make_market(length, seed):
    """Several seasonal components with a slow drift, and a volume series that follows the moves."""
    rng = np.random.default_rng(seed)
    t = np.arange(length)
    close = 100 + 0.004 * t
    for period, amp in ((24, 2.0), (37, 1.5), (90, 3.0)):
        close = close + amp * np.sin(2 * np.pi * t / period + rng.uniform(0, 6.28))
    close = close + rng.normal(0, 0.15, length)
    volume = 50 + 8 * np.abs(np.gradient(close)) + rng.normal(0, 0.5, length)
    return np.stack([close, volume], 1).astype(np.float32)


class KlineDataset(Dataset):
    def __init__(self, series, config, stride):
        self.cfg = config
        self.series = series
        self.window = config.lookback_window + config.predict_window
        self.starts = list(range(0, len(series) - self.window + 1, stride))

    def __len__(self):
        return len(self.starts)

    def __getitem__(self, idx):
        start = self.starts[idx]
        x = self.series[start:start + self.window]
        x_mean, x_std = x.mean(axis=0), x.std(axis=0)
        x = (x - x_mean) / (x_std + 1e-5)
        x = np.clip(x, -self.cfg.clip, self.cfg.clip)
        x = torch.from_numpy(x)
        return x[:self.cfg.lookback_window], x[self.cfg.lookback_window:]


class Predictor(nn.Module):
    def __init__(self, n_features, horizon, hidden=96):
        super().__init__()
        self.horizon, self.n_features = horizon, n_features
        self.encoder = nn.GRU(n_features, hidden, num_layers=2, batch_first=True)
        self.head = nn.Sequential(nn.Linear(hidden, hidden), nn.GELU(), nn.Linear(hidden, horizon * n_features))

    def forward(self, past):
        out, _ = self.encoder(past)
        delta = self.head(out[:, -1]).view(-1, self.horizon, self.n_features)
        return past[:, -1:] + delta


@torch.no_grad()
def evaluate(model, loader):
    model.eval()
    total, count = 0.0, 0
    for past, future in loader:
        total += nn.functional.mse_loss(model(past), future).item() * len(past)
        count += len(past)
    return total / count


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=300)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--length", type=int, default=3600)
    parser.add_argument("--save", default="predictor.pt")
    args = parser.parse_args()

    cfg = Config()
    random.seed(cfg.seed)
    np.random.seed(cfg.seed)
    torch.manual_seed(cfg.seed)

    market = make_market(args.length, cfg.seed)
    split = int(0.8 * len(market))
    train_set = KlineDataset(market[:split], cfg, stride=2)
    val_set = KlineDataset(market[split:], cfg, stride=6)
    generator = torch.Generator().manual_seed(cfg.seed)
    train_loader = DataLoader(train_set, args.batch_size, shuffle=True, generator=generator)
    val_loader = DataLoader(val_set, args.batch_size)

    model = Predictor(len(FEATURES), cfg.predict_window)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=0.01)
    total_steps = args.epochs * len(train_loader)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=total_steps, eta_min=args.lr * 0.01)

    first_epoch = 0
    if os.path.isfile(args.save):
        saved = torch.load(args.save)
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        scheduler.load_state_dict(saved["scheduler"])
        generator.set_state(saved["generator"])
        torch.set_rng_state(saved["rng"])
        first_epoch = saved["epoch"] + 1

    for epoch in range(first_epoch, args.epochs):
        model.train()
        running, seen = 0.0, 0
        for past, future in train_loader:
            loss = nn.functional.mse_loss(model(past), future)
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 3.0)
            optimizer.step()
            scheduler.step()
            running += loss.item() * len(past)
            seen += len(past)
        val = evaluate(model, val_loader)
        print(f"[{epoch + 1}/{args.epochs}] train {running / seen:.4f} val {val:.4f} "
              f"lr {scheduler.get_last_lr()[0]:.2e}", flush=True)
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(),
                    "scheduler": scheduler.state_dict(), "generator": generator.get_state(),
                    "rng": torch.get_rng_state(), "epoch": epoch}, args.save)


if __name__ == "__main__":
    main()

"""Multi-sensor traffic forecasting with quantile outputs; per-step logs are reduced at the epoch's end."""
import os
import random

import numpy as np
import torch
import torch.nn as nn

SEED = 6
EPOCHS = 200
BATCH = 64
LR = 2e-3
HISTORY, HORIZON, SENSORS = 72, 36, 24
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
CKPT = "traffic.ckpt"


def traffic(length, rng):
    t = np.arange(length)
    phase = rng.uniform(0, 2 * np.pi, SENSORS)
    day = np.sin(2 * np.pi * t[:, None] / 48 + phase)
    rush = np.maximum(0, np.sin(2 * np.pi * t[:, None] / 24 + 2 * phase)) ** 3
    drift = np.cumsum(rng.normal(0, 0.02, (length, 1)), axis=0)
    y = 0.8 * day + 1.2 * rush + 0.3 * drift + rng.normal(0, 0.08, (length, SENSORS))
    return y.astype(np.float32)


class Windows:
    def __init__(self, series):
        self.series = torch.from_numpy(series)

    def __len__(self):
        return len(self.series) - HISTORY - HORIZON + 1

    def batch(self, idx):
        x = torch.stack([self.series[i:i + HISTORY] for i in idx.tolist()])
        y = torch.stack([self.series[i + HISTORY:i + HISTORY + HORIZON] for i in idx.tolist()])
        return x, y


class QuantileForecaster(nn.Module):
    def __init__(self, hidden=96):
        super().__init__()
        self.encoder = nn.GRU(SENSORS, hidden, batch_first=True)
        self.decoder = nn.Sequential(nn.Linear(hidden, 192), nn.ReLU(),
                                     nn.Linear(192, HORIZON * SENSORS * len(QUANTILES)))
        self.training_step_outputs = []
        self.validation_step_outputs = []

    def forward(self, x):
        _, h = self.encoder(x)
        out = self.decoder(h[-1]).view(len(x), HORIZON, SENSORS, len(QUANTILES))
        return out + x[:, -1].view(len(x), 1, SENSORS, 1)

    @staticmethod
    def quantile_loss(pred, y):
        err = y.unsqueeze(-1) - pred
        q = torch.tensor(QUANTILES)
        return torch.maximum(q * err, (q - 1) * err).mean()

    def metrics(self, pred, y):
        target = y.unsqueeze(-1)
        error = pred - target
        return {"mae": error.abs().mean(),
                "rmse": error.pow(2).mean().sqrt(),
                "smape": (2 * error.abs() / (pred.abs() + target.abs() + 1e-6)).mean(),
                "coverage": torch.sigmoid((target - pred) * 20).mean()}

    def step(self, x, y):
        pred = self(x)
        loss = self.quantile_loss(pred, y)
        log = {"loss": loss, **self.metrics(pred, y)}
        return loss, log

    def training_step(self, x, y):
        loss, log = self.step(x, y)
        self.training_step_outputs.append({k: v.detach() for k, v in log.items()})
        return loss

    def validation_step(self, x, y):
        _, log = self.step(x, y)
        self.validation_step_outputs.append({k: v.detach() for k, v in log.items()})

    def on_epoch_end(self, outputs):
        summary = {k: torch.stack([o[k] for o in outputs]).mean().item() for k in outputs[0]}
        outputs.clear()
        return " ".join(f"{k} {v:.4f}" for k, v in summary.items())


def main():
    random.seed(SEED)
    np.random.seed(SEED)
    torch.manual_seed(SEED)
    rng = np.random.default_rng(SEED)
    series = traffic(3100, rng)
    mean, std = series[:2500].mean(0), series[:2500].std(0)
    series = (series - mean) / std
    train_set, val_set = Windows(series[:2500]), Windows(series[2600:])

    model = QuantileForecaster()
    optimizer = torch.optim.Adam(model.parameters(), lr=LR)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, EPOCHS, eta_min=LR / 50)
    start = 0
    if os.path.exists(CKPT):
        ck = torch.load(CKPT)
        model.load_state_dict(ck["model"])
        optimizer.load_state_dict(ck["optimizer"])
        scheduler.load_state_dict(ck["scheduler"])
        start = ck["epoch"] + 1
        print("resuming at epoch", start)

    for epoch in range(start, EPOCHS):
        model.train()
        order = torch.randperm(len(train_set), generator=torch.Generator().manual_seed(SEED + epoch))
        for i, idx in enumerate(order.split(BATCH)):
            loss = model.training_step(*train_set.batch(idx))
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            if i % 6 == 0:
                print(f"epoch {epoch} step {i} quantile loss {loss.item():.4f}", flush=True)
        scheduler.step()
        print(f"epoch {epoch} train: {model.on_epoch_end(model.training_step_outputs)}", flush=True)
        model.eval()
        with torch.no_grad():
            for idx in torch.arange(len(val_set)).split(128):
                model.validation_step(*val_set.batch(idx))
        print(f"epoch {epoch} val: {model.on_epoch_end(model.validation_step_outputs)}", flush=True)
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(),
                    "scheduler": scheduler.state_dict(), "epoch": epoch}, CKPT)


if __name__ == "__main__":
    main()

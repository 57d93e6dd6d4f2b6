# Day-ahead power load forecasting with a GRU: a short pre-training on a simple target, then the long training.
import math
import os
import random

import numpy as np
import torch
import torch.nn as nn

SEED = 42
random.seed(SEED)
np.random.seed(SEED)
torch.manual_seed(SEED)

BATCH = 64
WINDOW = 7 * 24
HORIZON = 24
LR = 2e-3
PRETRAIN_EPOCHS = 1
EPOCHS = 400
DECAY_EPOCHS = 200
OUT = "power_forecast"


def make_series(n_houses=24, days=500, seed=0):
    rng = np.random.default_rng(seed)
    t = np.arange(days * 24)
    out = []
    for _ in range(n_houses):
        base = rng.uniform(0.3, 1.0)
        morning = rng.uniform(0.2, 1.0) * np.exp(-((t % 24 - rng.uniform(6, 9)) / 1.8) ** 2)
        evening = rng.uniform(0.6, 1.8) * np.exp(-((t % 24 - rng.uniform(18, 21)) / 2.5) ** 2)
        weekend = 1 + rng.uniform(0.0, 0.4) * ((t // 24) % 7 >= 5)
        season = 1 + 0.3 * np.cos(2 * np.pi * t / (365 * 24))
        ar = np.zeros(len(t))
        eps = 0.06 * rng.standard_normal(len(t))
        for k in range(1, len(t)):
            ar[k] = 0.92 * ar[k - 1] + eps[k]
        out.append((base + morning + evening) * weekend * season + ar)
    return np.stack(out).astype(np.float32)


class Windows:
    def __init__(self, series, lo, hi, mean, std):
        self.x = torch.from_numpy((series[:, lo:hi] - mean) / std)
        self.starts = [(h, s) for h in range(len(series)) for s in range(0, hi - lo - WINDOW - HORIZON, 6)]

    def __len__(self):
        return len(self.starts) // BATCH

    def __iter__(self):
        order = np.random.permutation(len(self.starts))
        for b in range(len(self)):
            rows = [self.starts[i] for i in order[b * BATCH:(b + 1) * BATCH]]
            x = torch.stack([self.x[h, s:s + WINDOW] for h, s in rows])
            y = torch.stack([self.x[h, s + WINDOW:s + WINDOW + HORIZON] for h, s in rows])
            yield x, y


class LoadGRU(nn.Module):
    def __init__(self, hidden=160):
        super().__init__()
        self.rnn = nn.GRU(24, hidden, batch_first=True)
        self.head = nn.Sequential(nn.Linear(hidden + 24, 128), nn.SELU(), nn.Linear(128, HORIZON))

    def forward(self, x):
        days = x.view(len(x), -1, 24)
        h, _ = self.rnn(days)
        return self.head(torch.cat([h[:, -1], days[:, -1]], 1))


class ExponentialDecay:
    """Divides the learning rate by 10 every s batches."""

    def __init__(self, optimizer, s=40000):
        self.optimizer = optimizer
        self.s = s

    def on_batch_begin(self):
        for group in self.optimizer.param_groups:
            group["lr"] = group["lr"] * 0.1 ** (1 / self.s)


@torch.no_grad()
def mae(model, windows, limit=20):
    model.eval()
    state = np.random.get_state()
    np.random.seed(0)
    err, n = 0.0, 0
    for b, (x, y) in enumerate(windows):
        if b == limit:
            break
        err += (model(x) - y).abs().mean().item()
        n += 1
    np.random.set_state(state)
    model.train()
    return err / n


def fit(model, optimizer, callback, data, epochs, target, tag):
    loss_fn = nn.SmoothL1Loss()
    history = []
    for epoch in range(epochs):
        running = 0.0
        for b, (x, y) in enumerate(data):
            callback.on_batch_begin()
            loss = loss_fn(model(x), target(x, y))
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            running = loss.item() if b == 0 else 0.95 * running + 0.05 * loss.item()
            if b % 50 == 0:
                print(f"{tag} epoch {epoch} batch {b}/{len(data)} loss {running:.4f} "
                      f"lr {optimizer.param_groups[0]['lr']:.3e}", flush=True)
        score = mae(model, valid)
        history.append(score)
        print(f"{tag} epoch {epoch} valid mae {score:.4f}", flush=True)
        if score == min(history):
            torch.save(model.state_dict(), os.path.join(OUT, f"{tag}.pt"))
    return history


os.makedirs(OUT, exist_ok=True)
series = make_series()
cut = int(series.shape[1] * 0.85)
mean, std = series[:, :cut].mean(1, keepdims=True), series[:, :cut].std(1, keepdims=True)
train = Windows(series, 0, cut, mean, std)
valid = Windows(series, cut, series.shape[1], mean, std)
print(f"{len(train)} training batches, {len(valid)} validation batches")

model = LoadGRU()

# one epoch on "same as yesterday", a good starting point
s = PRETRAIN_EPOCHS * len(train)
optimizer = torch.optim.Adam(model.parameters(), lr=LR)
exp_decay = ExponentialDecay(optimizer, s)
fit(model, optimizer, exp_decay, train, PRETRAIN_EPOCHS, lambda x, y: x[:, -HORIZON:], "pretrain")

# the actual training: lr / 10 every DECAY_EPOCHS epochs
optimizer = torch.optim.Adam(model.parameters(), lr=LR)
exp_decay = ExponentialDecay(optimizer, DECAY_EPOCHS * len(train))
history = fit(model, optimizer, exp_decay, train, EPOCHS, lambda x, y: y, "main")
print("best mae", min(history))

"""Traffic forecasting on a sensor graph: recurrent graph convolution, one step ahead per node."""
import os
import random

import numpy as np
import torch
import torch.nn as nn

SEED = 0
NODES = 60
LAGS = 8
TRAIN_STEPS = 200
VAL_STEPS = 60
BATCH = 8           # consecutive snapshots whose cost is averaged
EPOCHS = 500
LR = 3e-3
CKPT = "traffic.pt"


def make_series():
    rng = np.random.default_rng(11)
    pos = rng.uniform(0, 1, (NODES, 2))
    d = np.linalg.norm(pos[:, None] - pos[None], axis=-1)
    adj = np.exp(-(d / 0.18) ** 2)
    adj[adj < 0.1] = 0.0
    adj = adj / adj.sum(1, keepdims=True)
    t_all = TRAIN_STEPS + VAL_STEPS + LAGS + 50
    phase = rng.uniform(0, 2 * np.pi, NODES)
    amp = rng.uniform(0.6, 1.6, NODES)
    x = np.zeros((t_all, NODES))
    for t in range(1, t_all):
        drive = amp * np.sin(2 * np.pi * t / 24.0 + phase) + 0.6 * np.sin(2 * np.pi * t / 57.0 + 2 * phase)
        x[t] = 0.55 * adj @ x[t - 1] + 0.45 * drive + 0.02 * rng.normal(size=NODES)
    x = x[50:]
    mean, std = x[:TRAIN_STEPS].mean(), x[:TRAIN_STEPS].std()
    x = (x - mean) / std
    feats = np.stack([x[i:i + LAGS].T for i in range(len(x) - LAGS)])
    targets = np.stack([x[i + LAGS] for i in range(len(x) - LAGS)])
    return (torch.tensor(adj, dtype=torch.float32), torch.tensor(feats, dtype=torch.float32),
            torch.tensor(targets, dtype=torch.float32))


class RecurrentGCN(nn.Module):
    def __init__(self, hidden=32):
        super().__init__()
        self.inp = nn.Linear(1, hidden)
        self.gate = nn.Linear(2 * hidden, 2 * hidden)
        self.cand = nn.Linear(2 * hidden, hidden)
        self.head = nn.Sequential(nn.Linear(hidden, hidden), nn.SiLU(), nn.Linear(hidden, 1))

    def forward(self, x, adj):
        h = x.new_zeros(x.shape[0], self.inp.out_features)
        for k in range(x.shape[1]):
            u = torch.tanh(self.inp(x[:, k:k + 1]))
            agg = torch.cat([u, adj @ h], 1)
            r, z = torch.sigmoid(self.gate(agg)).chunk(2, 1)
            c = torch.tanh(self.cand(torch.cat([u, r * h], 1)))
            h = z * h + (1 - z) * c
        return self.head(h)


def validate(model, adj, feats, targets):
    model.eval()
    with torch.no_grad():
        err = 0.0
        for x, y in zip(feats, targets):
            err += torch.mean((model(x, adj).view(-1) - y) ** 2).item()
    model.train()
    return err / len(feats)


def main():
    random.seed(SEED)
    np.random.seed(SEED)
    torch.manual_seed(SEED)
    adj, feats, targets = make_series()
    tr_x, tr_y = feats[:TRAIN_STEPS - LAGS], targets[:TRAIN_STEPS - LAGS]
    va_x, va_y = feats[TRAIN_STEPS:TRAIN_STEPS + VAL_STEPS], targets[TRAIN_STEPS:TRAIN_STEPS + VAL_STEPS]
    model = RecurrentGCN()
    opt = torch.optim.Adam(model.parameters(), lr=LR)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, EPOCHS)
    first = 0
    if os.path.isfile(CKPT):
        ck = torch.load(CKPT, weights_only=False)
        model.load_state_dict(ck["model"])
        opt.load_state_dict(ck["opt"])
        sched.load_state_dict(ck["sched"])
        first = ck["epoch"]
        torch.set_rng_state(ck["rng"])
        np.random.set_state(ck["np_rng"])
        random.setstate(ck["py_rng"])
        print("resume from epoch", first)

    for epoch in range(first, EPOCHS):
        order = torch.randperm(len(tr_x))
        running = 0.0
        steps = 0
        for s in range(0, len(order) - BATCH + 1, BATCH):
            cost = 0.0
            for j in order[s:s + BATCH]:
                y_hat = model(tr_x[j], adj)
                cost = cost + torch.mean((y_hat - tr_y[j]) ** 2)
            cost = cost / BATCH
            opt.zero_grad()
            cost.backward()
            opt.step()
            running += cost.item()
            steps += 1
            print(f"epoch {epoch} step {steps} cost {cost.item():.5f}")
        sched.step()
        print(f"epoch {epoch} mean cost {running / steps:.5f} val mse {validate(model, adj, va_x, va_y):.5f}")
        torch.save({"model": model.state_dict(), "opt": opt.state_dict(), "sched": sched.state_dict(),
                    "epoch": epoch + 1, "rng": torch.get_rng_state(), "np_rng": np.random.get_state(),
                    "py_rng": random.getstate()}, CKPT + ".part")
        os.replace(CKPT + ".part", CKPT)


if __name__ == "__main__":
    main()

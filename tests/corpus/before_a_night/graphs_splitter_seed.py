"""Graph classification with a message-passing network; the data splits are made by a splitter with its own seed."""
import os
import random

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

CONFIG = {"epochs": 300, "batch": 24, "lr": 2e-3, "hidden": 64, "layers": 3, "seed": 10, "splitter_seed": 42,
          "holdout": 0.2, "checkpoint": "graphs.pt"}
N_GRAPHS, N_NODES, N_CLASSES = 720, 18, 3


def make_graphs():
    """Three families of random graphs: ring lattices, two communities, hubs; node features are noisy degrees."""
    rng = np.random.default_rng(5)
    adj = np.zeros((N_GRAPHS, N_NODES, N_NODES), np.float32)
    y = np.arange(N_GRAPHS) % N_CLASSES
    for g in range(N_GRAPHS):
        a = np.zeros((N_NODES, N_NODES))
        if y[g] == 0:
            for i in range(N_NODES):
                a[i, (i + 1) % N_NODES] = a[i, (i + 2) % N_NODES] = 1
            a[rng.random(a.shape) < 0.04] = 1
        elif y[g] == 1:
            half = N_NODES // 2
            a[:half, :half] = rng.random((half, half)) < 0.38
            a[half:, half:] = rng.random((half, half)) < 0.38
            a[0, half] = 1
        else:
            hubs = rng.choice(N_NODES, 2, replace=False)
            a[hubs] = rng.random((2, N_NODES)) < 0.8
            a[rng.random(a.shape) < 0.06] = 1
        a = np.maximum(a, a.T)
        np.fill_diagonal(a, 1)
        p = rng.permutation(N_NODES)
        adj[g] = a[p][:, p]
    deg = adj.sum(-1, keepdims=True)
    feats = np.concatenate([deg / 6, rng.normal(size=(N_GRAPHS, N_NODES, 3))], -1).astype(np.float32)
    return torch.from_numpy(adj / deg), torch.from_numpy(feats), torch.from_numpy(y)


class Splitter:
    """Shuffles the graphs and holds a share of them out, stratified by class."""

    def __init__(self, holdout, seed):
        self.holdout = holdout
        self.seed = seed

    def split(self, targets):
        rng = np.random.default_rng()
        train, test = [], []
        for c in np.unique(targets):
            idx = np.where(targets == c)[0]
            rng.shuffle(idx)
            k = int(round(self.holdout * len(idx)))
            test.append(idx[:k])
            train.append(idx[k:])
        return np.sort(np.concatenate(train)), np.sort(np.concatenate(test))


class GNN(nn.Module):
    def __init__(self, n_in, hidden, layers):
        super().__init__()
        self.inp = nn.Linear(n_in, hidden)
        self.self_w = nn.ModuleList(nn.Linear(hidden, hidden) for _ in range(layers))
        self.nei_w = nn.ModuleList(nn.Linear(hidden, hidden, bias=False) for _ in range(layers))
        self.out = nn.Sequential(nn.Linear(2 * hidden, hidden), nn.SiLU(), nn.Linear(hidden, N_CLASSES))

    def forward(self, adj, x):
        h = self.inp(x)
        for a, b in zip(self.self_w, self.nei_w):
            h = h + F.silu(a(h) + b(adj @ h))
        return self.out(torch.cat([h.mean(1), h.amax(1)], -1))


def main():
    c = CONFIG
    random.seed(c["seed"])
    np.random.seed(c["seed"])
    torch.manual_seed(c["seed"])
    adj, x, y = make_graphs()
    train_idx, test_idx = Splitter(c["holdout"], seed=c["splitter_seed"]).split(y.numpy())
    train_idx, test_idx = torch.from_numpy(train_idx), torch.from_numpy(test_idx)
    model = GNN(x.shape[-1], c["hidden"], c["layers"])
    opt = torch.optim.Adam(model.parameters(), lr=c["lr"])
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, c["epochs"])
    start = 0
    if os.path.exists(c["checkpoint"]):
        s = torch.load(c["checkpoint"], weights_only=False)
        model.load_state_dict(s["model"])
        opt.load_state_dict(s["opt"])
        sched.load_state_dict(s["sched"])
        start = s["epoch"]
        torch.set_rng_state(s["torch"])
        np.random.set_state(s["numpy"])
        random.setstate(s["python"])
    for epoch in range(start, c["epochs"]):
        model.train()
        for i, b in enumerate(torch.randperm(len(train_idx)).split(c["batch"])):
            k = train_idx[b]
            loss = F.cross_entropy(model(adj[k], x[k]), y[k])
            opt.zero_grad()
            loss.backward()
            opt.step()
            if i % 6 == 0:
                print(f"epoch {epoch} step {i} loss {loss.item():.4f}")
        sched.step()
        model.eval()
        with torch.no_grad():
            out = model(adj[test_idx], x[test_idx])
            acc = (out.argmax(1) == y[test_idx]).float().mean().item()
            vl = F.cross_entropy(out, y[test_idx]).item()
        print(f"epoch {epoch} val loss {vl:.4f} acc {acc:.3f}")
        torch.save({"model": model.state_dict(), "opt": opt.state_dict(), "sched": sched.state_dict(), "epoch": epoch + 1,
                    "torch": torch.get_rng_state(), "numpy": np.random.get_state(), "python": random.getstate()},
                   c["checkpoint"] + ".tmp")
        os.replace(c["checkpoint"] + ".tmp", c["checkpoint"])


if __name__ == "__main__":
    main()

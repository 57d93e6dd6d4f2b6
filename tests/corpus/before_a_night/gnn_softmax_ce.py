"""Node classification on stochastic block graphs with a small dense message-passing network."""
import argparse
import os
import random

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

BLOCKS, NODES = 6, 48


def make_graphs(n, seed):
    """Six communities; a sixth of the nodes carry their community as a noisy seed feature."""
    rng = np.random.default_rng(seed)
    adj = np.zeros((n, NODES, NODES), np.float32)
    feat = np.zeros((n, NODES, BLOCKS + 1), np.float32)
    lab = np.zeros((n, NODES), np.int64)
    for i in range(n):
        y = rng.permutation(np.arange(NODES) % BLOCKS)
        p = np.where(y[:, None] == y[None, :], 0.6, 0.05)
        a = np.triu(rng.random((NODES, NODES)) < p, 1)
        adj[i] = a + a.T
        seeded = rng.random(NODES) < 0.35
        feat[i, np.arange(NODES)[seeded], y[seeded]] = 1.0
        feat[i, :, BLOCKS] = ~seeded
        lab[i] = y
    return TensorDataset(torch.from_numpy(adj), torch.from_numpy(feat), torch.from_numpy(lab))


class GraphLayer(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.own = nn.Linear(dim, dim)
        self.neigh = nn.Linear(dim, dim, bias=False)
        self.norm = nn.LayerNorm(dim)

    def forward(self, adj, h):
        deg = adj.sum(-1, keepdim=True).clamp(min=1)
        m = adj @ h / deg
        return h + F.relu(self.norm(self.own(h) + self.neigh(m)))


class GraphNet(nn.Module):
    def __init__(self, dim=64, depth=4):
        super().__init__()
        self.inp = nn.Linear(BLOCKS + 1, dim)
        self.layers = nn.ModuleList(GraphLayer(dim) for _ in range(depth))
        self.out = nn.Linear(dim, BLOCKS)

    def forward(self, adj, x):
        h = self.inp(x)
        for layer in self.layers:
            h = layer(adj, h)
        return F.softmax(self.out(h), dim=-1)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=250)
    ap.add_argument("--batch_size", type=int, default=16)
    ap.add_argument("--lr", type=float, default=2e-3)
    ap.add_argument("--seed", type=int, default=13)
    ap.add_argument("--ckpt", default="gnn.pt")
    args = ap.parse_args()
    random.seed(args.seed)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)
    order = torch.Generator()
    train = DataLoader(make_graphs(400, 1), args.batch_size, shuffle=True, generator=order)
    val = DataLoader(make_graphs(96, 2), 32)
    net = GraphNet()
    criterion = nn.CrossEntropyLoss()
    opt = torch.optim.Adam(net.parameters(), lr=args.lr)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, args.epochs, eta_min=2e-5)
    start = 0
    if os.path.exists(args.ckpt):
        ck = torch.load(args.ckpt)
        net.load_state_dict(ck["net"])
        opt.load_state_dict(ck["opt"])
        sched.load_state_dict(ck["sched"])
        start = ck["epoch"]
        print("resumed at epoch", start)
    for epoch in range(start, args.epochs):
        order.manual_seed(args.seed + 31 * epoch)
        net.train()
        for step, (a, x, y) in enumerate(train):
            scores = net(a, x)
            loss = criterion(scores.flatten(0, 1), y.flatten())
            opt.zero_grad()
            loss.backward()
            opt.step()
            if step % 5 == 0:
                print(f"epoch {epoch} step {step} loss {loss.item():.4f}", flush=True)
        sched.step()
        net.eval()
        with torch.no_grad():
            acc = torch.cat([(net(a, x).argmax(-1) == y).float() for a, x, y in val]).mean().item()
        print(f"epoch {epoch} val acc {acc:.4f}", flush=True)
        torch.save({"net": net.state_dict(), "opt": opt.state_dict(), "sched": sched.state_dict(), "epoch": epoch + 1}, args.ckpt)


if __name__ == "__main__":
    main()

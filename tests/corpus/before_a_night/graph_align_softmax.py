"""Siamese GNN for graph alignment: predict the node correspondence between a graph and its noisy copy."""
import argparse
import os
import random

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset


class AlignDataset(Dataset):
    """Erdos-Renyi graphs, a permuted copy with some edges rewired, and the permutation."""

    def __init__(self, n_graphs, n_nodes, p, noise, seed):
        g = torch.Generator().manual_seed(seed)
        self.items = []
        for _ in range(n_graphs):
            a = (torch.rand(n_nodes, n_nodes, generator=g) < p).float().triu(1)
            a = a + a.t()
            flip = (torch.rand(n_nodes, n_nodes, generator=g) < noise).float().triu(1)
            flip = flip + flip.t()
            b = (a - flip).abs()
            perm = torch.randperm(n_nodes, generator=g)
            self.items.append((a, b[perm][:, perm], torch.argsort(perm)))

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        return self.items[i]


def structural_features(a, k=6):
    """Return probabilities of random walks up to k steps, and the degree."""
    deg = a.sum(-1).clamp(min=1)
    w = a / deg.unsqueeze(-1)
    feats, cur = [deg.unsqueeze(-1) / a.size(-1)], w
    for _ in range(k):
        cur = cur @ w
        feats.append(torch.diagonal(cur, dim1=-2, dim2=-1).unsqueeze(-1) * 4)
    return torch.cat(feats, -1)


class GINLayer(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.mlp = nn.Sequential(nn.Linear(2 * dim, dim), nn.ReLU(), nn.Linear(dim, dim))
        self.norm = nn.LayerNorm(dim)

    def forward(self, h, a):
        agg = a @ h / a.sum(-1, keepdim=True).clamp(min=1)
        return self.norm(h + self.mlp(torch.cat([h, agg], -1)))


class NodeEmbedding(nn.Module):
    def __init__(self, dim, layers, k=6):
        super().__init__()
        self.inp = nn.Linear(k + 1, dim)
        self.layers = nn.ModuleList(GINLayer(dim) for _ in range(layers))
        self.out = nn.Linear(dim, dim)

    def forward(self, a):
        h = self.inp(structural_features(a))
        for layer in self.layers:
            h = layer(h, a)
        return self.out(h)


class SiameseAlign(nn.Module):
    def __init__(self, dim=48, layers=3):
        super().__init__()
        self.embed = NodeEmbedding(dim, layers)
        self.scale = dim ** -0.5

    def forward(self, a, b):
        scores = self.embed(a) @ self.embed(b).transpose(1, 2) * self.scale
        return F.softmax(scores, dim=-1)


def alignment_loss(scores, target):
    return F.cross_entropy(scores.flatten(0, 1), target.flatten())


@torch.no_grad()
def evaluate(model, loader):
    model.eval()
    loss, acc, n = 0.0, 0.0, 0
    for a, b, t in loader:
        s = model(a, b)
        loss += alignment_loss(s, t).item() * len(a)
        acc += (s.argmax(-1) == t).float().mean().item() * len(a)
        n += len(a)
    model.train()
    return loss / n, acc / n


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=600)
    ap.add_argument("--batch-size", type=int, default=16)
    ap.add_argument("--lr", type=float, default=1e-3)
    ap.add_argument("--nodes", type=int, default=16)
    ap.add_argument("--seed", type=int, default=1)
    ap.add_argument("--ckpt", default="align_last.pt")
    args = ap.parse_args()
    random.seed(args.seed)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)

    train = AlignDataset(400, args.nodes, 0.3, 0.01, seed=10)
    val = AlignDataset(100, args.nodes, 0.3, 0.01, seed=11)
    gen = torch.Generator()
    loader = DataLoader(train, args.batch_size, shuffle=True, generator=gen, drop_last=True)
    val_loader = DataLoader(val, args.batch_size)

    model = SiameseAlign()
    opt = torch.optim.Adam(model.parameters(), lr=args.lr)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, T_max=args.epochs * len(loader))
    start = 0
    if os.path.exists(args.ckpt):
        ck = torch.load(args.ckpt)
        model.load_state_dict(ck["model"])
        opt.load_state_dict(ck["opt"])
        sched.load_state_dict(ck["sched"])
        torch.set_rng_state(ck["rng"])
        start = ck["epoch"]
        print(f"resumed at epoch {start}")

    for epoch in range(start, args.epochs):
        gen.manual_seed(args.seed * 1000 + epoch)
        total = 0.0
        for a, b, t in loader:
            opt.zero_grad()
            loss = alignment_loss(model(a, b), t)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            opt.step()
            sched.step()
            total += loss.item()
        vl, va = evaluate(model, val_loader)
        print(f"epoch {epoch} train loss {total / len(loader):.4f} val loss {vl:.4f} val acc {va:.3f}", flush=True)
        torch.save({"model": model.state_dict(), "opt": opt.state_dict(), "sched": sched.state_dict(),
                    "rng": torch.get_rng_state(), "epoch": epoch + 1}, args.ckpt)


if __name__ == "__main__":
    main()

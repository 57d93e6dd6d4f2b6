"""Metric learning: embeddings of spectra with a batch-all triplet loss averaged over the active triplets."""
import argparse
import os
import random

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset, Sampler

CLASSES, DIM = 24, 96


class Spectra(Dataset):
    def __init__(self, per_class, seed, noise):
        rng = np.random.default_rng(404)
        centre = rng.normal(0, 1, (CLASSES, DIM))
        rng = np.random.default_rng(seed)
        self.y = np.repeat(np.arange(CLASSES), per_class)
        self.x = (centre[self.y] + rng.normal(0, noise, (len(self.y), DIM))).astype(np.float32)

    def __len__(self):
        return len(self.y)

    def __getitem__(self, i):
        return torch.from_numpy(self.x[i]), int(self.y[i])


class PKSampler(Sampler):
    """Batches of p classes with k samples each."""

    def __init__(self, labels, p, k, batches, seed):
        self.index = [np.flatnonzero(labels == c) for c in range(CLASSES)]
        self.p, self.k, self.batches, self.seed, self.epoch = p, k, batches, seed, 0

    def __len__(self):
        return self.batches

    def __iter__(self):
        rng = np.random.default_rng(self.seed + self.epoch)
        for _ in range(self.batches):
            classes = rng.choice(CLASSES, self.p, replace=False)
            yield [int(i) for c in classes for i in rng.choice(self.index[c], self.k, replace=False)]


class TripletLoss(nn.Module):
    def __init__(self, margin, avg_non_zero_only=True):
        super().__init__()
        self.margin, self.avg_non_zero_only = margin, avg_non_zero_only

    def forward(self, emb, y):
        dist = 2 - 2 * emb @ emb.T
        same = y[:, None] == y[None, :]
        pos = same & ~torch.eye(len(y), dtype=torch.bool)
        a, p, n = torch.nonzero(pos[:, :, None] & ~same[:, None, :], as_tuple=True)
        violation = F.relu(dist[a, p] - dist[a, n] + self.margin)
        num_non_zero = int((violation > 0).sum())
        if self.avg_non_zero_only and num_non_zero > 0:
            return violation.sum() / num_non_zero
        return violation.mean()


class Embedder(nn.Module):
    def __init__(self, out=32):
        super().__init__()
        self.fc1 = nn.Linear(DIM, 192)
        self.fc2 = nn.Linear(192, out, bias=False)

    def forward(self, x):
        return F.normalize(self.fc2(F.relu(self.fc1(x))), dim=-1)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=400)
    ap.add_argument("--p", type=int, default=4)
    ap.add_argument("--k", type=int, default=4)
    ap.add_argument("--lr", type=float, default=3e-3)
    ap.add_argument("--margin", type=float, default=0.2)
    ap.add_argument("--noise", type=float, default=1.1)
    ap.add_argument("--seed", type=int, default=14)
    ap.add_argument("--ckpt", default="embedder.pt")
    args = ap.parse_args()
    random.seed(args.seed)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)
    train_set, val_set = Spectra(30, 1, args.noise), Spectra(10, 2, args.noise)
    sampler = PKSampler(train_set.y, args.p, args.k, 25, args.seed * 1000)
    train = DataLoader(train_set, batch_sampler=sampler)
    val = DataLoader(val_set, 60)
    net, criterion = Embedder(), TripletLoss(args.margin)
    opt = torch.optim.Adam(net.parameters(), lr=args.lr)
    start = 0
    if os.path.exists(args.ckpt):
        ck = torch.load(args.ckpt)
        net.load_state_dict(ck["net"])
        opt.load_state_dict(ck["opt"])
        start = ck["epoch"]
        print("resumed at epoch", start)
    for epoch in range(start, args.epochs):
        sampler.epoch = epoch
        net.train()
        for step, (x, y) in enumerate(train):
            loss = criterion(net(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            if step % 5 == 0:
                print(f"epoch {epoch} step {step} loss {loss.item():.4f}", flush=True)
        net.eval()
        with torch.no_grad():
            emb = torch.cat([net(x) for x, _ in val])
        y = torch.from_numpy(val_set.y)
        sim = emb @ emb.T
        sim.fill_diagonal_(-2.0)
        r1 = (y[sim.argmax(1)] == y).float().mean().item()
        print(f"epoch {epoch} recall@1 {r1:.4f}", flush=True)
        torch.save({"net": net.state_dict(), "opt": opt.state_dict(), "epoch": epoch + 1}, args.ckpt)


if __name__ == "__main__":
    main()

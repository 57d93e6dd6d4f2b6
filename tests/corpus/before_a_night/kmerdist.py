"""Embed protein k-mers such that Euclidean distances follow substitution-matrix distances."""
import argparse
import random
import time

import numpy as np
import torch
import torch.nn as nn

AMINO = "ARNDCQEGHILKMFPSTWYV"
# hydrophobicity, volume, charge, polarity, helix propensity
PROPERTIES = np.array([
    [1.8, 88.6, 0, 8.1, 1.42], [-4.5, 173.4, 1, 10.5, 0.98], [-3.5, 114.1, 0, 11.6, 0.67], [-3.5, 111.1, -1, 13.0, 1.01],
    [2.5, 108.5, 0, 5.5, 0.70], [-3.5, 143.8, 0, 10.5, 1.11], [-3.5, 138.4, -1, 12.3, 1.51], [-0.4, 60.1, 0, 9.0, 0.57],
    [-3.2, 153.2, 0.1, 10.4, 1.00], [4.5, 166.7, 0, 5.2, 1.08], [3.8, 166.7, 0, 4.9, 1.21], [-3.9, 168.6, 1, 11.3, 1.16],
    [1.9, 162.9, 0, 5.7, 1.45], [2.8, 189.9, 0, 5.2, 1.13], [-1.6, 112.7, 0, 8.0, 0.57], [-0.8, 89.0, 0, 9.2, 0.77],
    [-0.7, 116.1, 0, 8.6, 0.83], [-0.9, 227.8, 0, 5.4, 1.08], [-1.3, 193.6, 0, 6.2, 0.69], [4.2, 140.0, 0, 5.9, 1.06]])


def substitution_distances():
    z = (PROPERTIES - PROPERTIES.mean(0)) / PROPERTIES.std(0)
    d = np.sqrt(((z[:, None] - z[None]) ** 2).sum(-1))
    return torch.tensor(d / d.max(), dtype=torch.float32)


class KmerPairs:
    """Pairs of k-mers, the second one mutated from the first; position weights peak in the middle."""

    def __init__(self, k, data_seed=0):
        self.k = k
        self.rng = np.random.default_rng(data_seed)
        self.dist = substitution_distances()
        w = np.exp(-0.5 * ((np.arange(k) - (k - 1) / 2) / (k / 4)) ** 2)
        self.weights = torch.tensor(w / w.sum(), dtype=torch.float32)

    def batch(self, n):
        a = self.rng.integers(0, 20, (n, self.k))
        mutate = self.rng.random((n, self.k)) < self.rng.random((n, 1))
        b = np.where(mutate, self.rng.integers(0, 20, (n, self.k)), a)
        a, b = torch.from_numpy(a), torch.from_numpy(b)
        target = (self.dist[a, b] * self.weights).sum(1)
        return a, b, target.sqrt()


class KmerEncoder(nn.Module):
    def __init__(self, k, dim=32, hidden=128, out=64):
        super().__init__()
        self.embed = nn.Embedding(20, dim)
        self.conv = nn.Sequential(nn.Conv1d(dim, hidden, 5, padding=2), nn.GELU(),
                                  nn.Conv1d(hidden, hidden, 5, padding=2), nn.GELU())
        self.out = nn.Linear(hidden * k, out)

    def forward(self, ids):
        h = self.conv(self.embed(ids).transpose(1, 2))
        return self.out(h.flatten(1))


class DistanceOptimizer:
    """Holds the encoder and optimises its coordinates against the pair distances."""

    def __init__(self, pairs, args):
        self.pairs = pairs
        self.args = args
        self.encoder = KmerEncoder(pairs.k)
        self.scale = nn.Parameter(torch.rand(1) * 0.1 + 0.05)
        self.noise = args.noise
        params = list(self.encoder.parameters()) + [self.scale]
        self.optimizer = torch.optim.Adam(params, lr=args.lr)
        self.scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(self.optimizer, T_max=args.steps, eta_min=1e-5)

    def set_seed(self, seed):
        random.seed(seed)
        np.random.seed(seed)
        torch.manual_seed(seed)

    def predict(self, a, b):
        za, zb = self.encoder(torch.cat([a, b])).chunk(2)
        if self.encoder.training:
            za, zb = za + self.noise * torch.randn_like(za), zb + self.noise * torch.randn_like(zb)
        return self.scale * (za - zb).pow(2).sum(1).add(1e-6).sqrt()

    def step(self):
        a, b, target = self.pairs.batch(self.args.batch_size)
        loss = nn.functional.smooth_l1_loss(self.predict(a, b), target, beta=0.05)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.scheduler.step()
        return loss.item()

    @torch.no_grad()
    def validate(self, held_out):
        self.encoder.eval()
        a, b, target = held_out
        pred = self.predict(a, b)
        self.encoder.train()
        stress = ((pred - target) ** 2).sum() / (target ** 2).sum()
        corr = torch.corrcoef(torch.stack([pred, target]))[0, 1]
        return stress.item(), corr.item()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--k", type=int, default=11)
    ap.add_argument("--steps", type=int, default=60000)
    ap.add_argument("--batch_size", type=int, default=64)
    ap.add_argument("--lr", type=float, default=1e-3)
    ap.add_argument("--noise", type=float, default=0.02)
    ap.add_argument("--report_every", type=int, default=25)
    ap.add_argument("--seed", type=int, default=1)
    args = ap.parse_args()

    held_out = KmerPairs(args.k, data_seed=99).batch(2000)
    trainer = DistanceOptimizer(KmerPairs(args.k), args)
    trainer.set_seed(args.seed)

    best, t0, running = float("inf"), time.time(), 0.0
    for step in range(1, args.steps + 1):
        running += trainer.step()
        if step % args.report_every == 0:
            print(f"step {step} loss {running / args.report_every:.6f} "
                  f"{1000 * (time.time() - t0) / step:.0f} ms", flush=True)
            running = 0.0
        if step % 500 == 0:
            stress, corr = trainer.validate(held_out)
            print(f"step {step} held-out stress {stress:.5f} correlation {corr:.4f}", flush=True)
            if stress < best:
                best = stress
                torch.save(trainer.encoder.state_dict(), "kmer_encoder.pt")


if __name__ == "__main__":
    main()

"""Implicit-feedback recommender; the item table is built in shards and merged back before training."""
import argparse
import random

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


def simulate(n_users, n_items, per_user, seed, rank=8):
    rng = np.random.default_rng(seed)
    group = rng.integers(0, 40, n_users)
    taste = rng.standard_normal((40, rank))[group] + 0.4 * rng.standard_normal((n_users, rank))
    genre = rng.integers(0, 40, n_items)
    style = rng.standard_normal((40, rank))[genre] + 0.4 * rng.standard_normal((n_items, rank))
    pop = 0.3 * rng.standard_normal(n_items)
    histories = np.zeros((n_users, per_user), dtype=np.int64)
    for lo in range(0, n_users, 500):
        score = 1.3 * taste[lo:lo + 500] @ style.T + pop
        noisy = score + rng.gumbel(size=score.shape)
        histories[lo:lo + 500] = np.argpartition(-noisy, per_user, axis=1)[:, :per_user] + 1
    for h in histories:
        rng.shuffle(h)
    return histories


class SplitProjection(nn.Module):
    def __init__(self, rows, dim):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(rows, dim) * 0.1)


class SerializedEmbedding(nn.Module):
    """An embedding whose table is kept as several smaller tables."""

    def __init__(self, num_embeddings, dim, serialization_factor):
        super().__init__()
        assert num_embeddings % serialization_factor == 0
        self.num_embeddings = num_embeddings
        self.split_size = num_embeddings // serialization_factor
        self.split_embeddings = nn.ModuleList(SplitProjection(self.split_size, dim)
                                              for _ in range(serialization_factor))

    def deserialize(self):
        """Deserialize the internal wrapped embedding layer and return it as a `nn.Embedding` object."""
        return nn.Embedding.from_pretrained(torch.vstack([l.weight.detach() for l in self.split_embeddings]),
                                            padding_idx=0, freeze=False)


class NextItemModel(nn.Module):
    def __init__(self, n_items, dim, shards):
        super().__init__()
        rows = -(-(n_items + 1) // shards) * shards
        self.items = SerializedEmbedding(rows, dim, shards).deserialize()
        self.item_bias = nn.Parameter(torch.zeros(rows))
        self.mix = nn.Sequential(nn.Linear(dim, dim), nn.ReLU(), nn.Linear(dim, dim))
        self.drop = nn.Dropout(0.1)

    def forward(self, history, candidates=None):
        mask = (history > 0).float().unsqueeze(-1)
        h = (self.items(history) * mask).sum(1) / mask.sum(1).clamp(min=1)
        h = h + self.mix(self.drop(h))
        if candidates is None:
            return h @ self.items.weight.T + self.item_bias
        return (h.unsqueeze(1) * self.items(candidates)).sum(-1) + self.item_bias[candidates]


def batches(histories, bs, max_len, rng):
    order = rng.permutation(len(histories))
    for lo in range(0, len(order), bs):
        rows = histories[order[lo:lo + bs]]
        cut = rng.integers(5, rows.shape[1] - 2, size=len(rows))
        hist = np.zeros((len(rows), max_len), dtype=np.int64)
        target = np.zeros(len(rows), dtype=np.int64)
        for r, (row, c) in enumerate(zip(rows, cut)):
            seen = row[max(0, c - max_len):c]
            hist[r, :len(seen)] = seen
            target[r] = row[c]
        yield torch.from_numpy(hist), torch.from_numpy(target)


def sampled_softmax(model, hist, target, n_items, n_neg, gen):
    neg = torch.randint(1, n_items + 1, (len(target), n_neg), generator=gen)
    cand = torch.cat([target[:, None], neg], 1)
    logits = model(hist, cand)
    clash = neg == target[:, None]
    logits[:, 1:] = logits[:, 1:].masked_fill(clash, -1e9)
    return F.cross_entropy(logits, torch.zeros(len(target), dtype=torch.long))


@torch.no_grad()
def evaluate(model, histories, max_len, n=2000, k=20):
    model.eval()
    hits = 0
    for lo in range(0, n, 250):
        rows = torch.from_numpy(histories[lo:lo + 250])
        scores = model(rows[:, -max_len - 1:-1])
        scores[:, 0] = -1e9
        scores.scatter_(1, rows[:, :-1], -1e9)
        hits += (scores.topk(k, 1).indices == rows[:, -1:]).any(1).sum().item()
    model.train()
    return hits / n


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--users", type=int, default=10000)
    p.add_argument("--items", type=int, default=3000)
    p.add_argument("--per_user", type=int, default=40)
    p.add_argument("--dim", type=int, default=64)
    p.add_argument("--serialization_factor", type=int, default=4)
    p.add_argument("--max_len", type=int, default=30)
    p.add_argument("--negatives", type=int, default=200)
    p.add_argument("--batch_size", type=int, default=256)
    p.add_argument("--lr", type=float, default=2e-3)
    p.add_argument("--epochs", type=int, default=1000)
    p.add_argument("--seed", type=int, default=17)
    args = p.parse_args()
    random.seed(args.seed)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)
    rng = np.random.default_rng(args.seed)
    gen = torch.Generator().manual_seed(args.seed)

    histories = simulate(args.users, args.items, args.per_user, args.seed)
    model = NextItemModel(args.items, args.dim, args.serialization_factor)
    opt = torch.optim.Adam(model.parameters(), lr=args.lr)
    best, step = 0.0, 0
    for epoch in range(args.epochs):
        total, n = 0.0, 0
        for hist, target in batches(histories, args.batch_size, args.max_len, rng):
            loss = sampled_softmax(model, hist, target, args.items, args.negatives, gen)
            opt.zero_grad()
            loss.backward()
            opt.step()
            total, n, step = total + loss.item(), n + 1, step + 1
            if step % 20 == 0:
                print(f"epoch {epoch} step {step} loss {loss.item():.4f}", flush=True)
        recall = evaluate(model, histories, args.max_len)
        print(f"epoch {epoch} mean loss {total / n:.4f} recall@20 {recall:.4f}", flush=True)
        if recall > best:
            best = recall
            torch.save(model.state_dict(), "next_item_best.pt")


if __name__ == "__main__":
    main()

"""ComplEx knowledge-graph embeddings with filtered negative sampling."""
import argparse
import os
import random

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

ENTITIES, RELATIONS, CLUSTERS = 160, 6, 10


def make_graph(rng):
    cluster = rng.integers(0, CLUSTERS, ENTITIES)
    triples = []
    for s in range(ENTITIES):
        for r in range(RELATIONS):
            tails = np.flatnonzero(cluster == (3 * cluster[s] + r + 1) % CLUSTERS)
            for o in tails:
                if o != s and rng.random() < 0.45:
                    triples.append((s, r, o))
    triples = rng.permutation(np.array(triples))
    cut = len(triples) // 10
    return torch.from_numpy(triples[cut:]), torch.from_numpy(triples[:cut])


class NegativeSampler:
    """Draws corrupted objects; draws that are true in the training graph are replaced."""

    def __init__(self, triples, num_negatives, seed):
        self.num_negatives = num_negatives
        self.known = np.zeros((ENTITIES, RELATIONS, ENTITIES), dtype=bool)
        s, r, o = triples.numpy().T
        self.known[s, r, o] = True
        self.rng = np.random.default_rng(seed)

    def sample(self, batch):
        s, r = batch[:, 0].numpy()[:, None], batch[:, 1].numpy()[:, None]
        neg = self.rng.integers(0, ENTITIES, (len(batch), self.num_negatives))
        bad = self.known[s, r, neg]
        while bad.any():
            neg[bad] = self.rng.integers(0, ENTITIES, int(bad.sum()))
            bad = self.known[s, r, neg]
        return torch.from_numpy(neg)

    def state(self):
        return self.rng.bit_generator.state

    def set_state(self, state):
        self.rng.bit_generator.state = state


class ComplEx(nn.Module):
    def __init__(self, dim=48):
        super().__init__()
        self.entity = nn.Embedding(ENTITIES, 2 * dim)
        self.relation = nn.Embedding(RELATIONS, 2 * dim)
        nn.init.normal_(self.entity.weight, std=0.3)
        nn.init.normal_(self.relation.weight, std=0.3)

    def query(self, s, r):
        sr, si = self.entity(s).chunk(2, -1)
        rr, ri = self.relation(r).chunk(2, -1)
        return torch.cat([sr * rr - si * ri, sr * ri + si * rr], -1)

    def forward(self, s, r, o):
        return torch.einsum("bd,bkd->bk", self.query(s, r), self.entity(o))

    def all_objects(self, s, r):
        return self.query(s, r) @ self.entity.weight.t()


@torch.no_grad()
def mean_reciprocal_rank(model, triples, known):
    model.eval()
    scores = model.all_objects(triples[:, 0], triples[:, 1])
    target = scores.gather(1, triples[:, 2:3])
    mask = torch.from_numpy(known[triples[:, 0].numpy(), triples[:, 1].numpy()])
    rank = 1 + ((scores > target) & ~mask).sum(1)
    return (1.0 / rank).mean().item()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=400)
    ap.add_argument("--batch-size", type=int, default=256)
    ap.add_argument("--negatives", type=int, default=24)
    ap.add_argument("--lr", type=float, default=0.01)
    ap.add_argument("--seed", type=int, default=12)
    ap.add_argument("--ckpt", default="complex_kge.pt")
    args = ap.parse_args()
    random.seed(args.seed)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)

    train, valid = make_graph(np.random.default_rng(args.seed))
    sampler = NegativeSampler(train, args.negatives, args.seed)
    print(f"{len(train)} training and {len(valid)} validation triples")
    model = ComplEx()
    opt = torch.optim.Adam(model.parameters(), lr=args.lr)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, args.epochs, eta_min=args.lr / 50)
    start = 0
    if os.path.exists(args.ckpt):
        ck = torch.load(args.ckpt, weights_only=False)
        model.load_state_dict(ck["model"])
        opt.load_state_dict(ck["opt"])
        sched.load_state_dict(ck["sched"])
        sampler.set_state(ck["sampler"])
        start = ck["epoch"] + 1
        print("resuming after epoch", ck["epoch"])

    for epoch in range(start, args.epochs):
        model.train()
        order = torch.randperm(len(train), generator=torch.Generator().manual_seed(args.seed + epoch))
        for it, idx in enumerate(order.split(args.batch_size)):
            batch = train[idx]
            negatives = sampler.sample(batch)
            scores = model(batch[:, 0], batch[:, 1], torch.cat([batch[:, 2:3], negatives], dim=1))
            loss = F.softplus(-scores[:, 0]).mean() + F.softplus(scores[:, 1:]).mean()
            opt.zero_grad()
            loss.backward()
            opt.step()
            if it % 6 == 0:
                print(f"epoch {epoch} batch {it} loss {loss.item():.4f}", flush=True)
        sched.step()
        mrr = mean_reciprocal_rank(model, valid, sampler.known)
        print(f"epoch {epoch} valid mrr {mrr:.4f}", flush=True)
        torch.save({"model": model.state_dict(), "opt": opt.state_dict(), "sched": sched.state_dict(),
                    "sampler": sampler.state(), "epoch": epoch}, args.ckpt)


if __name__ == "__main__":
    main()

"""Knowledge graph embeddings (DistMult-like with relation transforms) trained with negative sampling."""
import os
import random

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

CONFIG = dict(entities=300, relations=6, dim=48, epochs=400, batch_size=256, learning_rate=5e-3,
              negatives=8, margin=1.0, seed=2019, checkpoint="kge.pt")


def build_graph(cfg):
    """Entities sit on a hidden ring of groups; each relation maps a group to another one."""
    rng = np.random.default_rng(11)
    group = rng.integers(0, 12, cfg["entities"])
    shift = rng.permutation(12)[:cfg["relations"]]
    triples = []
    for h in range(cfg["entities"]):
        for r in range(cfg["relations"]):
            tails = np.flatnonzero(group == (group[h] + shift[r]) % 12)
            for t in rng.choice(tails, size=min(5, len(tails)), replace=False):
                triples.append((h, r, t))
    triples = np.array(triples)
    rng.shuffle(triples)
    cut = int(0.9 * len(triples))
    return torch.from_numpy(triples[:cut]), torch.from_numpy(triples[cut:])


class TransD(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.entity = nn.Embedding(cfg["entities"], cfg["dim"])
        self.relation = nn.Embedding(cfg["relations"], cfg["dim"])
        self.transform = nn.Parameter(torch.eye(cfg["dim"]).repeat(cfg["relations"], 1, 1))
        nn.init.normal_(self.entity.weight, std=0.5)
        nn.init.normal_(self.relation.weight, std=0.5)

    def forward(self, h, r, t):
        head = torch.einsum("bd,bde->be", self.entity(h), self.transform[r]) + self.relation(r)
        return (head.unsqueeze(1) * self.entity(t)).sum(-1)


def set_random_seeds(seed):
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)


def batch_loss(model, batch, cfg):
    h, r, t = batch.unbind(1)
    negatives = torch.randint(0, cfg["entities"], (len(batch), cfg["negatives"]))
    scores = model(h, r, torch.cat([t.unsqueeze(1), negatives], 1))
    target = torch.zeros_like(scores)
    target[:, 0] = 1.0
    return F.binary_cross_entropy_with_logits(scores, target)


@torch.no_grad()
def hits_at_10(model, triples, cfg):
    model.eval()
    everything = torch.arange(cfg["entities"]).unsqueeze(0)
    h, r, t = triples.unbind(1)
    scores = model(h, r, everything.expand(len(triples), -1))
    rank = (scores > scores.gather(1, t.unsqueeze(1))).sum(1)
    return (rank < 10).float().mean().item()


def train_kge_model(model, train, test, cfg):
    optimizer = torch.optim.Adam(model.parameters(), lr=cfg["learning_rate"])
    first = 0
    if os.path.exists(cfg["checkpoint"]):
        state = torch.load(cfg["checkpoint"])
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        torch.set_rng_state(state["rng"])
        first = state["epoch"] + 1
    for epoch in range(first, cfg["epochs"]):
        model.train()
        order = torch.randperm(len(train))
        total = 0.0
        for idx in order.split(cfg["batch_size"]):
            loss = batch_loss(model, train[idx], cfg)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item() * len(idx)
        print(f"epoch {epoch} loss {total / len(train):.4f} hits@10 {hits_at_10(model, test, cfg):.3f}", flush=True)
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(),
                    "rng": torch.get_rng_state(), "epoch": epoch}, cfg["checkpoint"])


def run_pipeline(cfg):
    train, test = build_graph(cfg)
    set_random_seeds(cfg["seed"])
    model = TransD(cfg)
    train_kge_model(model, train, test, cfg)


if __name__ == "__main__":
    run_pipeline(CONFIG)

"""Relation extraction between two marked drugs in a sentence: positive combination, other, or none."""
import argparse
import os
import random

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

DRUGS = ["alfapril", "betamab", "cetuxol", "deltarin", "epsinib", "gammacil", "iotaplex", "kapparol"]
POS = "synergy improved enhanced superior additive prolonged".split()
NEG = "separately versus alone instead replaced compared".split()
OTHER = "and with received given patients treated trial dose weekly oral cohort arm".split()
WORDS = ["<pad>", "<mask>", "[e1]", "[/e1]", "[e2]", "[/e2]"] + sorted(DRUGS + POS + NEG + OTHER)
STOI = {w: i for i, w in enumerate(WORDS)}
MAX_LEN = 28


def build_corpus(n, corpus_seed):
    """The annotated sentences (a fixed corpus, independent of the run's seed)."""
    rng = random.Random(corpus_seed)
    rows = []
    for _ in range(n):
        y = rng.randrange(3)
        d1, d2 = rng.sample(DRUGS, 2)
        toks = [rng.choice(OTHER) for _ in range(rng.randint(6, 14))]
        for _ in range(3):
            c = y if rng.random() < 0.7 else rng.randrange(3)
            toks.insert(rng.randrange(len(toks)), rng.choice((POS, NEG, OTHER)[c]))
        toks[rng.randrange(3):0] = ["[e1]", d1, "[/e1]"]
        toks += ["[e2]", d2, "[/e2]"]
        rows.append(([STOI[t] for t in toks], y))
    return rows


class RelationDataset(Dataset):
    def __init__(self, rows, train, mask_prob=0.1):
        self.rows, self.train, self.mask_prob = rows, train, mask_prob

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        ids, y = list(self.rows[i][0]), self.rows[i][1]
        if self.train:
            if random.random() < 0.3:
                ids.insert(random.randrange(len(ids)), STOI[random.choice(OTHER)])
            drop = np.random.rand(len(ids)) < self.mask_prob
            ids = [STOI["<mask>"] if d and t > 5 else t for t, d in zip(ids, drop)]
        ids = ids[:MAX_LEN] + [0] * (MAX_LEN - len(ids))
        return torch.tensor(ids), y


class RelationModel(nn.Module):
    def __init__(self, dim=48, classes=3):
        super().__init__()
        self.emb = nn.Embedding(len(WORDS), dim, padding_idx=0)
        self.rnn = nn.GRU(dim, dim, batch_first=True, bidirectional=True)
        self.drop = nn.Dropout(0.2)
        self.att = nn.Linear(2 * dim, 1)
        self.fc = nn.Linear(2 * dim, classes)

    def forward(self, ids):
        h, _ = self.rnn(self.drop(self.emb(ids)))
        w = self.att(h).squeeze(-1).masked_fill(ids == 0, -1e4).softmax(-1)
        return self.fc(self.drop((w.unsqueeze(-1) * h).sum(1)))


def set_seed(seed):
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)


def evaluate(model, loader):
    model.eval()
    loss, hit, n = 0.0, 0, 0
    with torch.no_grad():
        for x, y in loader:
            out = model(x)
            loss += F.cross_entropy(out, y, reduction="sum").item()
            hit += (out.argmax(1) == y).sum().item()
            n += len(y)
    return loss / n, hit / n


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--max-epochs", type=int, default=300)
    parser.add_argument("--batch-size", type=int, default=24)
    parser.add_argument("--lr", type=float, default=2e-3)
    parser.add_argument("--seed", type=int, default=2021)
    parser.add_argument("--checkpoint", default="relation.pt")
    args = parser.parse_args()
    set_seed(args.seed)

    train_loader = DataLoader(RelationDataset(build_corpus(600, 17), True), args.batch_size, shuffle=True)
    dev_loader = DataLoader(RelationDataset(build_corpus(150, 18), False), 75)
    model = RelationModel()
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr)
    start = 0
    if os.path.exists(args.checkpoint):
        state = torch.load(args.checkpoint, weights_only=False)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        random.setstate(state["rng"][0])
        np.random.set_state(state["rng"][1])
        torch.set_rng_state(state["rng"][2])
        start = state["epoch"]
        print(f"continue at epoch {start}")
    for epoch in range(start, args.max_epochs):
        model.train()
        for step, (x, y) in enumerate(train_loader):
            loss = F.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            if step % 5 == 0:
                print(f"epoch {epoch} step {step} loss {loss.item():.4f}", flush=True)
        vloss, vacc = evaluate(model, dev_loader)
        print(f"epoch {epoch} dev loss {vloss:.4f} acc {vacc:.3f}", flush=True)
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch + 1,
                    "rng": (random.getstate(), np.random.get_state(), torch.get_rng_state())}, args.checkpoint)


if __name__ == "__main__":
    main()

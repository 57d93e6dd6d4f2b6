"""Multi-task text model: topic, sentiment and spam heads on one shared GRU encoder."""
import argparse

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

VOCAB, SEQ_LEN = 600, 28
PROBLEMS = {"topic": 5, "sentiment": 2, "spam": 2}
SHARE = {"topic": 0.52, "sentiment": 0.40, "spam": 0.08}


class MultiProblemDataset(Dataset):
    """Every sample belongs to one problem; the other problems have label -1."""

    def __init__(self, n, seed):
        rng = np.random.default_rng(seed)
        base = np.random.default_rng(99)
        signal = {(p, c): base.choice(VOCAB - 1, 25, replace=False) + 1
                  for p, k in PROBLEMS.items() for c in range(k)}
        names = list(PROBLEMS)
        self.tokens = rng.integers(1, VOCAB, (n, SEQ_LEN))
        self.labels = np.full((n, len(names)), -1, np.int64)
        which = rng.choice(len(names), n, p=[SHARE[p] for p in names])
        for i, w in enumerate(which):
            c = rng.integers(PROBLEMS[names[w]])
            hits = rng.random(SEQ_LEN) < 0.22
            self.tokens[i, hits] = rng.choice(signal[names[w], c], hits.sum())
            self.labels[i, w] = c

    def __len__(self):
        return len(self.tokens)

    def __getitem__(self, i):
        return torch.from_numpy(self.tokens[i]), torch.from_numpy(self.labels[i])


class TopLayer(nn.Module):
    """Classification head of one problem, computes its own loss."""

    def __init__(self, problem_name, dim, num_classes):
        super().__init__()
        self.problem_name = problem_name
        self.dense = nn.Linear(dim, num_classes)

    def forward(self, hidden):
        return self.dense(hidden)

    def loss(self, hidden, labels):
        has_problem = labels >= 0
        logits = self(hidden[has_problem])
        batch_loss = F.cross_entropy(logits, labels[has_problem], reduction="none")
        loss = batch_loss.mean()
        if torch.isnan(loss):
            loss = torch.zeros_like(loss)
        return loss


class MultiTaskModel(nn.Module):
    def __init__(self, dim=96):
        super().__init__()
        self.embedding = nn.Embedding(VOCAB, dim)
        self.gru = nn.GRU(dim, dim, batch_first=True, bidirectional=True)
        self.dropout = nn.Dropout(0.2)
        self.heads = nn.ModuleDict({p: TopLayer(p, 2 * dim, k) for p, k in PROBLEMS.items()})

    def encode(self, tokens):
        out, _ = self.gru(self.embedding(tokens))
        return self.dropout(out.max(1).values)

    def loss(self, tokens, labels):
        hidden = self.encode(tokens)
        return {p: self.heads[p].loss(hidden, labels[:, i]) for i, p in enumerate(PROBLEMS)}


def evaluate(model, loader):
    model.eval()
    right = np.zeros(len(PROBLEMS))
    count = np.zeros(len(PROBLEMS))
    with torch.no_grad():
        for tokens, labels in loader:
            hidden = model.encode(tokens)
            for i, p in enumerate(PROBLEMS):
                has = labels[:, i] >= 0
                pred = model.heads[p](hidden[has]).argmax(1)
                right[i] += (pred == labels[has, i]).sum().item()
                count[i] += has.sum().item()
    return dict(zip(PROBLEMS, right / count))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--seed", type=int, default=3)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    torch.set_num_threads(1)

    train_loader = DataLoader(MultiProblemDataset(6400, 1), batch_size=args.batch_size, shuffle=True)
    val_loader = DataLoader(MultiProblemDataset(1500, 2), batch_size=250)
    model = MultiTaskModel()
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
    step = 0
    for epoch in range(args.epochs):
        model.train()
        running = 0.0
        for tokens, labels in train_loader:
            losses = model.loss(tokens, labels)
            loss = sum(losses.values())
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 5.0)
            optimizer.step()
            running += loss.item()
            step += 1
            if step % 100 == 0:
                print(f"step {step} loss {loss.item():.4f} " +
                      " ".join(f"{p} {v.item():.4f}" for p, v in losses.items()), flush=True)
        acc = evaluate(model, val_loader)
        print(f"epoch {epoch} mean loss {running / len(train_loader):.4f} " +
              " ".join(f"{p}_acc {a:.3f}" for p, a in acc.items()), flush=True)


if __name__ == "__main__":
    main()

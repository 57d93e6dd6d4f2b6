"""Document regression: predict a real-valued score for a short text."""
import argparse
import os
import random

import numpy as np
import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, Dataset

PAD = 0


class ScoredTexts(Dataset):
    """Token id sequences with a score label; the score is the mean valence of the words."""

    def __init__(self, n, vocab_size, valence, rng):
        self.docs, self.labels = [], []
        for _ in range(n):
            length = int(rng.integers(12, 40))
            tone = rng.normal()
            logits = valence * tone
            p = np.exp(logits - logits.max())
            ids = rng.choice(np.arange(1, vocab_size), size=length, p=p / p.sum())
            self.docs.append(torch.tensor(ids))
            self.labels.append([float(valence[ids - 1].mean())])
        self.labels = torch.tensor(self.labels)

    def __len__(self):
        return len(self.docs)

    def __getitem__(self, i):
        return self.docs[i], self.labels[i]


def collate(batch):
    docs, labels = zip(*batch)
    return pad_sequence(docs, batch_first=True, padding_value=PAD), torch.stack(labels)


class RegressionHead(nn.Module):
    def __init__(self, dims):
        super().__init__()
        layers = []
        for a, b in zip(dims[:-2], dims[1:-1]):
            layers += [nn.Linear(a, b), nn.GELU()]
        self.net = nn.Sequential(*layers, nn.Linear(dims[-2], dims[-1]))
        self.loss_fct = nn.MSELoss(reduction="mean")

    def forward(self, pooled):
        return self.net(pooled).squeeze(-1)

    def logits_to_loss(self, logits, labels):
        return self.loss_fct(logits, labels)


class TextRegressor(nn.Module):
    def __init__(self, vocab_size, dim=96):
        super().__init__()
        self.embed = nn.Embedding(vocab_size, dim, padding_idx=PAD)
        self.encoder = nn.GRU(dim, dim, batch_first=True, bidirectional=True)
        self.head = RegressionHead([2 * dim, 64, 1])

    def forward(self, ids):
        mask = (ids != PAD).unsqueeze(-1).float()
        h, _ = self.encoder(self.embed(ids))
        pooled = (h * mask).sum(1) / mask.sum(1)
        return self.head(pooled)


def evaluate(model, loader):
    model.eval()
    total, count = 0.0, 0
    with torch.no_grad():
        for ids, labels in loader:
            total += model.head.logits_to_loss(model(ids), labels).item() * len(ids)
            count += len(ids)
    model.train()
    return total / count


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--epochs", type=int, default=300)
    p.add_argument("--batch-size", type=int, default=32)
    p.add_argument("--lr", type=float, default=1e-3)
    p.add_argument("--vocab", type=int, default=400)
    p.add_argument("--seed", type=int, default=42)
    p.add_argument("--save", default="text_regressor.pt")
    args = p.parse_args()
    random.seed(args.seed)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)

    rng = np.random.default_rng(args.seed)
    valence = rng.normal(size=args.vocab - 1)
    train = ScoredTexts(768, args.vocab, valence, rng)
    val = ScoredTexts(192, args.vocab, valence, rng)
    mean, std = train.labels.mean(), train.labels.std()
    for ds in (train, val):
        ds.labels = (ds.labels - mean) / std
    order = torch.Generator()
    train_loader = DataLoader(train, args.batch_size, shuffle=True, collate_fn=collate, generator=order)
    val_loader = DataLoader(val, 64, collate_fn=collate)

    model = TextRegressor(args.vocab)
    opt = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=0.01)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, args.epochs * len(train_loader))
    start = 0
    if os.path.exists(args.save):
        state = torch.load(args.save)
        model.load_state_dict(state["model"])
        opt.load_state_dict(state["opt"])
        sched.load_state_dict(state["sched"])
        torch.set_rng_state(state["rng"])
        start = state["epoch"] + 1

    for epoch in range(start, args.epochs):
        order.manual_seed(args.seed + epoch)
        for step, (ids, labels) in enumerate(train_loader):
            loss = model.head.logits_to_loss(model(ids), labels)
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 5.0)
            opt.step()
            sched.step()
            if step % 6 == 0:
                print(f"epoch {epoch} step {step} loss {loss.item():.4f}", flush=True)
        print(f"epoch {epoch} val mse {evaluate(model, val_loader):.4f}", flush=True)
        torch.save({"model": model.state_dict(), "opt": opt.state_dict(), "sched": sched.state_dict(),
                    "rng": torch.get_rng_state(), "epoch": epoch}, args.save)


if __name__ == "__main__":
    main()

"""Small GRU language model over tokenised command logs."""
import argparse
import math
import os
import random

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


def get_args():
    p = argparse.ArgumentParser()
    p.add_argument("--num-sequences", type=int, default=1000)
    p.add_argument("--num-validation-sequences", type=int, default=200)
    p.add_argument("--seq-len", type=int, default=48)
    p.add_argument("--vocab-size", type=int, default=64)
    p.add_argument("--batch-size", type=int, default=32)
    p.add_argument("--epochs", type=int, default=300)
    p.add_argument("--lr", type=float, default=2e-3)
    p.add_argument("--seed", type=int, default=3)
    p.add_argument("--out", default="log_lm.pt")
    return p.parse_args()


def make_corpus(n, length, vocab, rng):
    """Each token is followed by one of three successors with fixed odds."""
    successors = np.stack([rng.permutation(vocab) for _ in range(3)], axis=1)
    seqs = np.empty((n, length), dtype=np.int64)
    seqs[:, 0] = rng.integers(0, vocab, size=n)
    for t in range(1, length):
        choice = rng.choice(3, size=n, p=[0.8, 0.15, 0.05])
        seqs[:, t] = successors[seqs[:, t - 1], choice]
    return torch.from_numpy(seqs)


def training_set(corpus, num_validation, seed):
    gen = torch.Generator().manual_seed(seed)
    train = corpus[num_validation:]
    return train[torch.randperm(len(train), generator=gen)]


def validation_set(corpus, num_validation):
    return corpus[:num_validation]


class GRULM(nn.Module):
    def __init__(self, vocab, dim=96, hidden=160):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.rnn = nn.GRU(dim, hidden, num_layers=2, batch_first=True)
        self.norm = nn.LayerNorm(hidden)
        self.head = nn.Linear(hidden, vocab)

    def forward(self, tokens):
        h, _ = self.rnn(self.embed(tokens))
        return self.head(self.norm(h))


def lm_loss(model, seqs):
    logits = model(seqs[:, :-1])
    return F.cross_entropy(logits.flatten(0, 1), seqs[:, 1:].flatten())


@torch.no_grad()
def evaluate(model, seqs, batch_size):
    model.eval()
    total = sum(lm_loss(model, b).item() * len(b) for b in seqs.split(batch_size))
    return total / len(seqs)


def main():
    args = get_args()
    random.seed(args.seed)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)

    corpus = make_corpus(args.num_sequences, args.seq_len, args.vocab_size,
                         np.random.default_rng(args.seed))
    train = training_set(corpus, args.num_validation_sequences, args.seed)
    val = validation_set(corpus, args.num_validation_sequences)
    print(f"{len(train)} training and {len(val)} validation sequences")

    model = GRULM(args.vocab_size)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=0.01)
    steps_per_epoch = (len(train) + args.batch_size - 1) // args.batch_size
    total = args.epochs * steps_per_epoch
    warmup = 20

    def lr_at(step):
        if step < warmup:
            return (step + 1) / warmup
        t = (step - warmup) / max(1, total - warmup)
        return 0.05 + 0.95 * 0.5 * (1 + math.cos(math.pi * min(1.0, t)))

    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lr_at)
    start = 0
    if os.path.exists(args.out):
        ck = torch.load(args.out)
        model.load_state_dict(ck["model"])
        optimizer.load_state_dict(ck["optim"])
        scheduler.load_state_dict(ck["sched"])
        start = ck["epoch"] + 1
        print("resuming at epoch", start)

    for epoch in range(start, args.epochs):
        model.train()
        order = torch.randperm(len(train), generator=torch.Generator().manual_seed(args.seed + epoch))
        losses = []
        for i, idx in enumerate(order.split(args.batch_size)):
            loss = lm_loss(model, train[idx])
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            scheduler.step()
            losses.append(loss.item())
            if i % 10 == 0:
                print(f"epoch {epoch} step {i} loss {loss.item():.4f}", flush=True)
        val_loss = evaluate(model, val, args.batch_size)
        print(f"epoch {epoch}: train {np.mean(losses):.4f} val {val_loss:.4f}", flush=True)
        torch.save({"model": model.state_dict(), "optim": optimizer.state_dict(),
                    "sched": scheduler.state_dict(), "epoch": epoch}, args.out)


if __name__ == "__main__":
    main()

"""Sentence classification with a convolutional network over word embeddings (TextCNN)."""
import argparse
import os
import random

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

parser = argparse.ArgumentParser(description="CNN text classifier")
parser.add_argument("-lr", type=float, default=0.001)
parser.add_argument("-epochs", type=int, default=400)
parser.add_argument("-batch-size", type=int, default=50)
parser.add_argument("-embed-dim", type=int, default=48)
parser.add_argument("-kernel-num", type=int, default=32)
parser.add_argument("-kernel-sizes", type=str, default="3,4,5")
parser.add_argument("-dropout", type=float, default=0.2)
parser.add_argument("-seed", type=int, default=42)
parser.add_argument("-snapshot", type=str, default="snapshot.pt")
args = parser.parse_args()
args.kernel_sizes = [int(k) for k in args.kernel_sizes.split(",")]
args.embed_num, args.class_num = 60, 5
LENGTH = 24


class CNN_Text(nn.Module):
    def __init__(self, args):
        super().__init__()
        D, Co, Ks = args.embed_dim, args.kernel_num, args.kernel_sizes
        self.embed = nn.Embedding(args.embed_num, D)
        self.convs1 = nn.ModuleList([nn.Conv2d(1, Co, (K, D)) for K in Ks])
        self.dropout = nn.Dropout(args.dropout)
        self.fc1 = nn.Linear(len(Ks) * Co, args.class_num)

    def forward(self, x):
        x = self.embed(x).unsqueeze(1)
        x = [F.relu(conv(x)).squeeze(3) for conv in self.convs1]
        x = [F.max_pool1d(i, i.size(2)).squeeze(2) for i in x]
        x = self.dropout(torch.cat(x, 1))
        return self.fc1(x)


def make_sentences(n, phrases, rng):
    """Classes share all words; only the order within a phrase tells them apart."""
    x = rng.integers(0, args.embed_num, (n, LENGTH))
    y = rng.integers(0, args.class_num, n)
    for i, c in enumerate(y):
        for _ in range(2):
            phrase = phrases[c][rng.integers(len(phrases[c]))]
            at = rng.integers(0, LENGTH - len(phrase) + 1)
            x[i, at:at + len(phrase)] = phrase
    return torch.from_numpy(x), torch.from_numpy(y)


def evaluate(model, x, y):
    model.eval()
    with torch.no_grad():
        logits = torch.cat([model(b) for b in x.split(100)])
    return F.cross_entropy(logits, y).item(), (logits.argmax(1) == y).float().mean().item()


def main():
    random.seed(args.seed)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)
    rng = np.random.default_rng(args.seed)
    words = [rng.choice(args.embed_num, 4, replace=False) for _ in range(4)]
    phrases = [[rng.permutation(w) for w in words] for _ in range(args.class_num)]
    train_x, train_y = make_sentences(1000, phrases, rng)
    dev_x, dev_y = make_sentences(250, phrases, rng)

    model = CNN_Text(args)
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, args.epochs, eta_min=args.lr / 50)
    first = 0
    if os.path.exists(args.snapshot):
        snap = torch.load(args.snapshot)
        model.load_state_dict(snap["model"])
        optimizer.load_state_dict(snap["optimizer"])
        scheduler.load_state_dict(snap["scheduler"])
        torch.set_rng_state(snap["rng"])
        first = snap["epoch"] + 1
        print("loaded snapshot of epoch", snap["epoch"])

    for epoch in range(first, args.epochs):
        model.train()
        order = torch.randperm(len(train_x), generator=torch.Generator().manual_seed(args.seed + epoch))
        for step, idx in enumerate(order.split(args.batch_size)):
            optimizer.zero_grad()
            logit = model(train_x[idx])
            loss = F.cross_entropy(logit, train_y[idx])
            loss.backward()
            optimizer.step()
            if step % 5 == 0:
                acc = (logit.argmax(1) == train_y[idx]).float().mean().item()
                print(f"Batch[{epoch}:{step}] - loss: {loss.item():.6f}  acc: {100 * acc:.1f}%", flush=True)
        scheduler.step()
        dev_loss, dev_acc = evaluate(model, dev_x, dev_y)
        print(f"Evaluation - loss: {dev_loss:.6f}  acc: {100 * dev_acc:.1f}%", flush=True)
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(),
                    "scheduler": scheduler.state_dict(), "rng": torch.get_rng_state(), "epoch": epoch},
                   args.snapshot)


if __name__ == "__main__":
    main()

"""Text classifier over hashed n-grams with a memory efficient Mish activation."""
import argparse
import os
import random
import zlib

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

TOPICS = {
    "sport": "goal match referee team striker season coach penalty league stadium".split(),
    "market": "shares profit bank bond trader index merger quarter dividend price".split(),
    "space": "orbit rocket lander telescope comet crew launch module planet star".split(),
    "cooking": "oven butter dough pepper sauce onion recipe pan garlic flour".split(),
}
FILLER = "the a of and in with after before during while over under new old big small first last".split()


def make_texts(n, seed):
    rng = random.Random(seed)
    names = list(TOPICS)
    out = []
    for _ in range(n):
        y = rng.randrange(len(names))
        words = []
        for _ in range(rng.randint(10, 20)):
            r = rng.random()
            if r < 0.22:
                words.append(rng.choice(TOPICS[names[y]]))
            elif r < 0.30:
                words.append(rng.choice(TOPICS[rng.choice(names)]))
            else:
                words.append(rng.choice(FILLER))
        out.append((words, y))
    return out


def hash_features(words, rows, length=20):
    ids = [zlib.crc32(w.encode()) % (rows - 1) + 1 for w in words][:length]
    return ids + [0] * (length - len(ids))


class MishFunction(torch.autograd.Function):
    """x * tanh(softplus(x)); only the input is kept for the backward pass."""

    threshold = 20.0

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * torch.tanh(F.softplus(x))

    @staticmethod
    def backward(ctx, dy):
        (x,) = ctx.saved_tensors
        xs = x.clamp(max=MishFunction.threshold)
        e1 = torch.exp(xs)
        omega = 4.0 * (xs + 1.0)
        omega = omega + 4.0 * torch.exp(2.0 * xs)
        omega = omega + torch.exp(3.0 * xs)
        omega = omega + e1 * (4.0 * xs + 6.0)
        delta = 2.0 * e1 + torch.exp(2.0 * xs) + 2.0
        dx = dy * (e1 * omega / delta ** 2)
        return torch.where(x < MishFunction.threshold, dx, dy)


class Mish(nn.Module):
    def forward(self, x):
        return MishFunction.apply(x)


class Classifier(nn.Module):
    def __init__(self, rows=2000, width=64, depth=3, classes=4):
        super().__init__()
        self.embed = nn.Embedding(rows, width, padding_idx=0)
        self.encode = nn.ModuleList(
            nn.Sequential(nn.Conv1d(width, width, 3, padding=1), Mish()) for _ in range(depth))
        self.norm = nn.LayerNorm(width)
        self.out = nn.Sequential(nn.Linear(width, width), Mish(), nn.Linear(width, classes))

    def forward(self, ids):
        keep = (ids > 0).float().unsqueeze(1)
        h = self.embed(ids).transpose(1, 2)
        for layer in self.encode:
            h = (h + layer(h)) * keep
        pooled = h.sum(-1) / keep.sum(-1)
        return self.out(self.norm(pooled))


def batches(data, size, rows, rng=None):
    idx = list(range(len(data)))
    if rng is not None:
        rng.shuffle(idx)
    for i in range(0, len(idx), size):
        part = [data[j] for j in idx[i:i + size]]
        x = torch.tensor([hash_features(w, rows) for w, _ in part])
        yield x, torch.tensor([y for _, y in part])


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=500)
    ap.add_argument("--batch-size", type=int, default=32)
    ap.add_argument("--lr", type=float, default=1e-3)
    ap.add_argument("--rows", type=int, default=2000)
    ap.add_argument("--seed", type=int, default=7)
    ap.add_argument("--model-path", default="textcat.pt")
    cfg = ap.parse_args()
    random.seed(cfg.seed)
    np.random.seed(cfg.seed)
    torch.manual_seed(cfg.seed)

    train, dev = make_texts(800, 1), make_texts(200, 2)
    model = Classifier(cfg.rows)
    optim = torch.optim.AdamW(model.parameters(), lr=cfg.lr, weight_decay=0.01)
    first = 0
    if os.path.exists(cfg.model_path):
        ck = torch.load(cfg.model_path)
        model.load_state_dict(ck["model"])
        optim.load_state_dict(ck["optim"])
        torch.set_rng_state(ck["rng"])
        first = ck["epoch"]
    for epoch in range(first, cfg.epochs):
        model.train()
        tot, n = 0.0, 0
        for x, y in batches(train, cfg.batch_size, cfg.rows, random.Random(cfg.seed * 100003 + epoch)):
            optim.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optim.step()
            tot += loss.item() * len(y)
            n += len(y)
        model.eval()
        right = 0
        with torch.no_grad():
            for x, y in batches(dev, 100, cfg.rows):
                right += (model(x).argmax(1) == y).sum().item()
        print(f"epoch {epoch} loss {tot / n:.4f} dev acc {right / len(dev):.3f}", flush=True)
        torch.save({"model": model.state_dict(), "optim": optim.state_dict(),
                    "rng": torch.get_rng_state(), "epoch": epoch + 1}, cfg.model_path)


if __name__ == "__main__":
    main()

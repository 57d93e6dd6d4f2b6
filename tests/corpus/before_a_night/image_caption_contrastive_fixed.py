"""Image-caption contrastive pretraining (two towers, symmetric cross entropy)."""
import argparse
import itertools
import json
import os
import random

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset

COLORS = {"red": (1, 0, 0), "green": (0, 1, 0), "blue": (0, 0, 1), "yellow": (1, 1, 0),
          "pink": (1, 0, 1), "cyan": (0, 1, 1), "white": (1, 1, 1), "orange": (1, .5, 0)}
SHAPES = ["square", "cross", "ring", "bar"]
ROWS, COLS = ["upper", "middle", "lower"], ["left", "central", "right"]
SIZES = {"small": 2, "large": 4}
FILLER = ("photo taken outside on a sunny afternoon by an unknown artist for some old magazine "
          "and then printed again in another journal with kind permission of the publisher").split()


class SimpleTokenizer:
    """Word tokenizer with start and end of text tokens; <eot> has the highest id."""

    def __init__(self, words, context_length=16):
        self.vocab = {"<pad>": 0}
        for w in sorted(words):
            self.vocab[w] = len(self.vocab)
        self.vocab["<sot>"] = len(self.vocab)
        self.vocab["<eot>"] = len(self.vocab)
        self.inv = {i: w for w, i in self.vocab.items()}
        self.pad_token_id, self.bos_token_id, self.eos_token_id = 0, self.vocab["<sot>"], self.vocab["<eot>"]
        self.context_length = context_length

    def encode(self, text):
        return [self.vocab[w] for w in text.lower().split()]

    def decode(self, ids):
        special = {self.pad_token_id, self.bos_token_id, self.eos_token_id}
        return " ".join(self.inv[int(i)] for i in ids if int(i) not in special)

    def __call__(self, text):
        tokens = [self.bos_token_id] + self.encode(text) + [self.eos_token_id]
        if len(tokens) > self.context_length:
            tokens = tokens[:self.context_length]
            tokens[-1] = self.eos_token_id
        result = torch.full((self.context_length,), self.pad_token_id, dtype=torch.long)
        result[:len(tokens)] = torch.tensor(tokens)
        return result

    def save(self, path):
        with open(path, "w") as f:
            json.dump({"vocab": self.vocab, "context_length": self.context_length}, f)


def draw(color, shape, row, col, size):
    img = np.zeros((3, 18, 18), np.float32)
    cy, cx, s = 3 + 6 * ROWS.index(row), 3 + 6 * COLS.index(col), SIZES[size]
    yy, xx = np.mgrid[:18, :18]
    dy, dx = abs(yy - cy), abs(xx - cx)
    d = np.maximum(dy, dx)
    m = {"square": d < s, "cross": (d < s) & ((dy == 0) | (dx == 0)),
         "ring": d == s - 1, "bar": (d < s) & (dy == 0)}[shape]
    img[:, m] = np.array(COLORS[color], np.float32)[:, None]
    return img


class Captions(Dataset):
    def __init__(self, combos, tokenizer, seed):
        rng = np.random.default_rng(seed)
        self.images, self.texts = [], []
        for color, shape, row, col, size in combos:
            image = draw(color, shape, row, col, size) + 0.05 * rng.normal(size=(3, 18, 18))
            tail = " ".join(rng.choice(FILLER, int(rng.integers(0, 14))))
            self.images.append(torch.tensor((image - 0.05) / 0.2, dtype=torch.float32))
            self.texts.append(tokenizer(f"a {size} {color} {shape} in the {row} {col} part {tail}"))

    def __len__(self):
        return len(self.images)

    def __getitem__(self, i):
        return self.images[i], self.texts[i]


class TextTower(nn.Module):
    def __init__(self, vocab, ctx, dim):
        super().__init__()
        self.token = nn.Embedding(vocab, dim)
        self.pos = nn.Parameter(0.02 * torch.randn(ctx, dim))
        layer = nn.TransformerEncoderLayer(dim, 4, 2 * dim, dropout=0.0, batch_first=True, norm_first=True)
        self.blocks = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.norm = nn.LayerNorm(dim)
        self.proj = nn.Linear(dim, dim, bias=False)
        self.register_buffer("mask", torch.full((ctx, ctx), float("-inf")).triu(1))

    def forward(self, text):
        x = self.norm(self.blocks(self.token(text) + self.pos, mask=self.mask))
        return self.proj(x[torch.arange(len(text)), text.argmax(dim=-1)])


class CLIP(nn.Module):
    def __init__(self, vocab, ctx, dim=64):
        super().__init__()
        self.visual = nn.Sequential(nn.Conv2d(3, 32, 3, padding=1), nn.ReLU(), nn.Conv2d(32, 32, 3, 2, 1), nn.ReLU(),
                                    nn.Flatten(), nn.Linear(32 * 81, 128), nn.ReLU(), nn.Linear(128, dim))
        self.text = TextTower(vocab, ctx, dim)
        self.logit_scale = nn.Parameter(torch.tensor(2.66))

    def forward(self, image, text):
        i, t = F.normalize(self.visual(image), dim=-1), F.normalize(self.text(text), dim=-1)
        return self.logit_scale.clamp(max=4.6).exp() * i @ t.T


def clip_loss(logits):
    target = torch.arange(len(logits))
    return (F.cross_entropy(logits, target) + F.cross_entropy(logits.T, target)) / 2


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--epochs", type=int, default=400)
    p.add_argument("--batch-size", type=int, default=32)
    p.add_argument("--lr", type=float, default=1e-3)
    p.add_argument("--seed", type=int, default=3)
    p.add_argument("--output-dir", default="clip_run")
    args = p.parse_args()
    random.seed(args.seed)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)
    os.makedirs(args.output_dir, exist_ok=True)

    words = {"a", "in", "the", "part", *COLORS, *SHAPES, *ROWS, *COLS, *SIZES, *FILLER}
    tokenizer = SimpleTokenizer(words)
    tokenizer.save(os.path.join(args.output_dir, "tokenizer.json"))
    combos = list(itertools.product(COLORS, SHAPES, ROWS, COLS, SIZES))
    random.Random(args.seed).shuffle(combos)
    train, val = Captions(combos[:480], tokenizer, 1), Captions(combos[480:], tokenizer, 2)
    gen = torch.Generator()
    loader = DataLoader(train, args.batch_size, shuffle=True, generator=gen)
    val_loader = DataLoader(val, 96)

    model = CLIP(len(tokenizer.vocab), tokenizer.context_length)
    opt = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=0.01)
    ckpt, start = os.path.join(args.output_dir, "checkpoint.pt"), 0
    if os.path.exists(ckpt):
        state = torch.load(ckpt)
        model.load_state_dict(state["model"])
        opt.load_state_dict(state["optimizer"])
        start = state["epoch"]
    for epoch in range(start, args.epochs):
        gen.manual_seed(args.seed + epoch)
        model.train()
        for it, (image, text) in enumerate(loader):
            loss = clip_loss(model(image, text))
            opt.zero_grad()
            loss.backward()
            opt.step()
            if it % 5 == 0:
                print(f"epoch {epoch} it {it} loss {loss.item():.4f}", flush=True)
        model.eval()
        with torch.no_grad():
            acc = np.mean([(model(i, t).argmax(1) == torch.arange(len(i))).float().mean().item() for i, t in val_loader])
        print(f"epoch {epoch} val retrieval@1 {acc:.3f}", flush=True)
        torch.save({"model": model.state_dict(), "optimizer": opt.state_dict(), "epoch": epoch + 1}, ckpt)


if __name__ == "__main__":
    main()

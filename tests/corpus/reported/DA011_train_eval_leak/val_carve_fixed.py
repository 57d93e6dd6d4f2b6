"""Small character LM on a mix of two text sources (multi-dataset training with interleave and val_split)."""
import argparse
import ast
import math
import random
import sysconfig
from pathlib import Path

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader

STDLIB = Path(sysconfig.get_paths()["stdlib"])
ALPHABET = "\n" + "".join(chr(c) for c in range(32, 127))
SEQ = 64


def docstrings(*files):
    chunks = []
    for name in files:
        tree = ast.parse((STDLIB / name).read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)):
                text = ast.get_docstring(node)
                if text:
                    chunks.append("".join(c for c in text if c in ALPHABET))
    return chunks


def load_source(files, limit, seed):
    """One row per piece of SEQ + 1 characters, no piece twice."""
    text = "\n".join(docstrings(*files))
    rows = list(dict.fromkeys(text[i:i + SEQ + 1] for i in range(0, len(text) - SEQ - 1, SEQ + 1)))
    random.Random(seed).shuffle(rows)
    return rows[:limit]


def cycle_to(rows, n):
    return [rows[i % len(rows)] for i in range(n)]


def combine_interleaved(sources, strategy):
    if strategy == "concat":
        return [row for rows in sources for row in rows]
    target = max(map(len, sources)) if strategy == "over" else min(map(len, sources))
    sources = [cycle_to(rows, target) for rows in sources]
    return [row for group in zip(*sources) for row in group]


def split_val_per_source(sources, val_split):
    train, val = [], []
    for rows in sources:
        n_val = max(1, int(len(rows) * val_split))
        train.append(rows[:-n_val])
        val += rows[-n_val:]
    return train, val


def load_dataset(sources, strategy, val_split):
    sources, val = split_val_per_source(sources, val_split)
    rows = combine_interleaved(sources, strategy)
    return rows, val


def collate(batch):
    ids = torch.tensor([[ALPHABET.index(c) for c in row] for row in batch])
    return ids[:, :-1], ids[:, 1:]


class Layer(nn.Module):
    def __init__(self, dim, heads, dropout):
        super().__init__()
        self.heads = heads
        self.n1, self.n2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.qkv, self.o = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.ff = nn.Sequential(nn.Linear(dim, 3 * dim), nn.GELU(), nn.Linear(3 * dim, dim))
        self.drop = nn.Dropout(dropout)

    def forward(self, x):
        b, l, d = x.shape
        q, k, v = (t.view(b, l, self.heads, -1).transpose(1, 2) for t in self.qkv(self.n1(x)).chunk(3, dim=-1))
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.drop(self.o(a.transpose(1, 2).reshape(b, l, d)))
        return x + self.drop(self.ff(self.n2(x)))


class CharLM(nn.Module):
    def __init__(self, dim=80, heads=4, layers=2, dropout=0.1):
        super().__init__()
        self.embed = nn.Embedding(len(ALPHABET), dim)
        self.position = nn.Parameter(torch.randn(SEQ, dim) * 0.02)
        self.layers = nn.ModuleList([Layer(dim, heads, dropout) for _ in range(layers)])
        self.norm, self.head = nn.LayerNorm(dim), nn.Linear(dim, len(ALPHABET))
        nn.init.normal_(self.embed.weight, std=0.1)

    def forward(self, ids):
        x = self.embed(ids) + self.position[: ids.size(1)]
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))


def lm_loss(model, x, y):
    return F.cross_entropy(model(x).flatten(0, 1), y.flatten())


@torch.no_grad()
def evaluate(model, rows):
    model.eval()
    losses = [lm_loss(model, *collate(rows[i:i + 64])).item() * len(rows[i:i + 64]) for i in range(0, len(rows), 64)]
    model.train()
    return sum(losses) / len(rows)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--strategy", choices=["concat", "under", "over"], default="over")
    parser.add_argument("--val-split", type=float, default=0.1)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--lr", type=float, default=2e-3)
    parser.add_argument("--seed", type=int, default=5)
    args = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(args.seed)

    big = load_source(["argparse.py", "inspect.py", "subprocess.py", "typing.py", "shutil.py", "tarfile.py", "doctest.py",
                       "zipfile/__init__.py" if (STDLIB / "zipfile/__init__.py").exists() else "zipfile.py",
                       "difflib.py", "optparse.py", "random.py", "statistics.py", "tempfile.py", "pathlib/__init__.py"
                       if (STDLIB / "pathlib/__init__.py").exists() else "pathlib.py", "unittest/mock.py"], 1500, 0)
    small = load_source(["_pydecimal.py"], 460, 0)
    test = {"big": big[-100:], "small": small[-60:]}
    sources = [big[:-100], small[:-60]]
    train_rows, val_rows = load_dataset(sources, args.strategy, args.val_split)
    print(f"sources {[len(s) for s in sources]} train rows {len(train_rows)} val rows {len(val_rows)}")

    loader = DataLoader(train_rows, args.batch_size, shuffle=True, drop_last=True, collate_fn=collate)
    model = CharLM()
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=0.05)
    total = args.epochs * len(loader)
    scheduler = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda s: min(1, (s + 1) / 30) * (0.1 + 0.45 * (1 + math.cos(math.pi * min(1, s / total)))))
    step = 0
    for epoch in range(args.epochs):
        seen = 0.0
        for x, y in loader:
            loss = lm_loss(model, x, y)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            scheduler.step()
            step += 1
            seen += loss.item()
            if step % 40 == 0:
                print(f"step {step}/{total} loss {loss.item():.4f}", flush=True)
        print(f"epoch {epoch} train_loss {seen / len(loader):.4f} val_loss {evaluate(model, val_rows):.4f}", flush=True)
    print("test " + " ".join(f"{name} {evaluate(model, rows):.4f}" for name, rows in test.items()))


if __name__ == "__main__":
    main()

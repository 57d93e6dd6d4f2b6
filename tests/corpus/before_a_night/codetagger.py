"""BiLSTM tagger for Python code tokens with a subword lexer (hashed character n-grams)."""
import argparse
import io
import keyword
import os
import random
import time
import tokenize
import zlib

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
from torch.utils.data import DataLoader, Dataset

TAGS = ["KEYWORD", "FUNC", "CLASS", "ATTR", "CALL", "NAME", "NUMBER", "STRING", "OP"]
TAG2ID = {t: i for i, t in enumerate(TAGS)}
N_BUCKETS = 20000


def tag_line(tokens):
    """Words and tags of one logical line."""
    words, tags = [], []
    for i, tok in enumerate(tokens):
        prev = tokens[i - 1].string if i else ""
        nxt = tokens[i + 1].string if i + 1 < len(tokens) else ""
        if tok.type == tokenize.NUMBER:
            word, tag = tok.string, "NUMBER"
        elif tok.type == tokenize.STRING:
            word, tag = tok.string[:12], "STRING"
        elif tok.type == tokenize.OP:
            word, tag = tok.string, "OP"
        elif keyword.iskeyword(tok.string):
            word, tag = tok.string, "KEYWORD"
        elif prev == "def":
            word, tag = tok.string, "FUNC"
        elif prev == "class":
            word, tag = tok.string, "CLASS"
        elif nxt == "(":
            word, tag = tok.string, "CALL"
        elif prev == ".":
            word, tag = tok.string, "ATTR"
        else:
            word, tag = tok.string, "NAME"
        words.append(word)
        tags.append(TAG2ID[tag])
    return words, tags


def read_treebank(max_files, max_words=40):
    root = os.path.dirname(os.__file__)
    skip = (tokenize.NL, tokenize.COMMENT, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)
    files = []
    for name in sorted(f for f in os.listdir(root) if f.endswith(".py"))[:max_files]:
        with open(os.path.join(root, name), encoding="utf-8", errors="ignore") as fh:
            source = fh.read()
        lines, current = [], []
        try:
            for tok in tokenize.generate_tokens(io.StringIO(source).readline):
                if tok.type == tokenize.NEWLINE:
                    if 3 <= len(current) <= max_words:
                        lines.append(tag_line(current))
                    current = []
                elif tok.type not in skip:
                    current.append(tok)
        except (tokenize.TokenError, IndentationError):
            continue
        files.append(lines)
    return files


def subwords(word, lo=3, hi=5):
    w = "<" + word + ">"
    grams = [w] + [w[i:i + n] for n in range(lo, hi + 1) for i in range(len(w) - n + 1)]
    return [1 + zlib.crc32(g.encode()) % N_BUCKETS for g in grams]      # 0 is padding


class TaggedLines(Dataset):
    def __init__(self, lines):
        self.rows = [([subwords(w) for w in words], tags) for words, tags in lines]

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        return self.rows[i]


def collate(rows):
    n_words = max(len(t) for _, t in rows)
    n_sub = max(len(s) for subs, _ in rows for s in subs)
    ids = torch.zeros(len(rows), n_words, n_sub, dtype=torch.long)
    tags = torch.full((len(rows), n_words), -100)
    lengths = torch.tensor([len(t) for _, t in rows])
    for i, (subs, t) in enumerate(rows):
        tags[i, :len(t)] = torch.tensor(t)
        for j, s in enumerate(subs):
            ids[i, j, :len(s)] = torch.tensor(s)
    return ids, tags, lengths


class SubwordLexer(nn.Module):
    """A word is the average of the embeddings of its subwords."""

    def __init__(self, dim):
        super().__init__()
        self.embedding = nn.Embedding(N_BUCKETS + 1, dim, padding_idx=0)

    def forward(self, ids):
        return self.embedding(ids).mean(dim=2)


class Tagger(nn.Module):
    def __init__(self, dim=96, hidden=128):
        super().__init__()
        self.lexer = SubwordLexer(dim)
        self.dropout = nn.Dropout(0.2)
        self.lstm = nn.LSTM(dim, hidden, batch_first=True, bidirectional=True)
        self.head = nn.Linear(2 * hidden, len(TAGS))

    def forward(self, ids, lengths):
        x = self.dropout(self.lexer(ids))
        packed = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        out, _ = pad_packed_sequence(self.lstm(packed)[0], batch_first=True)
        return self.head(self.dropout(out))


@torch.no_grad()
def evaluate(model, loader):
    model.eval()
    right, n = 0, 0
    for ids, tags, lengths in loader:
        pred = model(ids, lengths).argmax(-1)
        mask = tags != -100
        right += ((pred == tags) & mask).sum().item()
        n += mask.sum().item()
    return right / n


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=40)
    ap.add_argument("--batch_size", type=int, default=32)
    ap.add_argument("--lr", type=float, default=1e-3)
    ap.add_argument("--max_files", type=int, default=90)
    ap.add_argument("--seed", type=int, default=0)
    args = ap.parse_args()
    random.seed(args.seed)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)

    files = read_treebank(args.max_files)
    random.shuffle(files)
    n_dev = max(1, len(files) // 10)
    dev = TaggedLines([line for f in files[:n_dev] for line in f])
    train = TaggedLines([line for f in files[n_dev:] for line in f])
    print(f"{len(train)} train lines, {len(dev)} dev lines")
    train_loader = DataLoader(train, args.batch_size, shuffle=True, collate_fn=collate)
    dev_loader = DataLoader(dev, args.batch_size, collate_fn=collate)

    model = Tagger()
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.95)
    best = 0.0
    for epoch in range(1, args.epochs + 1):
        model.train()
        t0, running = time.time(), 0.0
        for it, (ids, tags, lengths) in enumerate(train_loader, 1):
            logits = model(ids, lengths)
            loss = F.cross_entropy(logits.flatten(0, 1), tags.flatten(), ignore_index=-100)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 5.0)
            optimizer.step()
            running += loss.item()
            if it % 20 == 0:
                print(f"epoch {epoch} {it}/{len(train_loader)} loss {running / 20:.4f} "
                      f"{1000 * (time.time() - t0) / it:.0f} ms/it", flush=True)
                running = 0.0
        scheduler.step()
        acc = evaluate(model, dev_loader)
        print(f"epoch {epoch}: dev accuracy {acc:.4f}", flush=True)
        if acc > best:
            best = acc
            torch.save(model.state_dict(), "tagger.pt")


if __name__ == "__main__":
    main()

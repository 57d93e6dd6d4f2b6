# Train an SMS spam / phishing classifier (ham, spam, phishing) on the combined corpus.
#
#   python train.py --epochs 60
#
import argparse
import json
import os
import random
import re
import time
import unicodedata

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

CLASSES = ["ham", "spam", "phishing"]

NAMES = "Anna Ben Carlos Dina Emil Fatma George Hana Igor Julia Karim Lena Marek Nora Omar Petra Quinn Rosa Sami Tina".split()
PLACES = "station library office gym cafe airport mall school cinema market park clinic harbour museum".split()
THINGS = "keys charger report tickets cake notebook umbrella laptop jacket camera guitar suitcase parcel bike".split()
BRANDS = "MegaShop FoneWorld CityBet GlowSkin QuickLoan StarTV FitClub PizzaNow".split()
BANKS = "FirstBank NordPay CoastCredit UnionTrust PostBank SwiftPay TaxOffice ParcelHub".split()

TEMPLATES = {
    "ham": ["hey {n}, are we still meeting at the {p} at {t}?", "I forgot my {o} at the {p}, can you bring it {d}",
            "{n} said the {o} is ready, pick it up {d} after {t}", "running late, will be at the {p} around {t}",
            "did you call {n} about the {o}? she waits at the {p}", "your code for the {p} door is {c}, see you {d}",
            "happy birthday {n}! I left the {o} for you at the {p}", "your {b} order with the {o} arrives {d} at {t}"],
    "spam": ["{b} SALE! {k}% off every {o}, only {d}. Visit {u}", "WIN a {o} with {b}! reply YES to {c} before {t}",
             "{n}, your friends love {b}. get {k}% off now {u}", "{b}: free {o} for the first {k} callers {d} call {c}",
             "exclusive {b} offer ends {d} at {t}, show code {c} at the {p}", "new at the {p}: {b} gives {k} coins to {n}, join {u}"],
    "phishing": ["{k} alert: your {a} account is locked, confirm {d} at {u}", "{a}: unusual login near the {p}. verify now {u} code {c}",
                 "dear {n}, {a} could not deliver your {o}, pay {k} fee {u}", "{a} refund of {k}00 waits for {n}, claim before {t} {u}",
                 "your {a} card ending {c} is blocked, call {c} {d}", "{n} your {a} pin expires {d}, renew it at {u}"],
}


def fill(rng, template):
    return template.format(
        n=rng.choice(NAMES), p=rng.choice(PLACES), o=rng.choice(THINGS), b=rng.choice(BRANDS), a=rng.choice(BANKS),
        t="%d:%02d" % (rng.randint(7, 22), rng.choice([0, 15, 30, 45])), d=rng.choice(["today", "tomorrow", "on friday", "tonight"]),
        k=rng.randint(5, 90), c=rng.randint(1000, 99999),
        u="http://%s.%s/%s" % (rng.choice(BRANDS + BANKS).lower(), rng.choice(["co", "info", "top", "net"]), rng.randint(10, 999)))


def load_sources(seed=7):
    """The combined dataset: three collections that were crawled at different times."""
    rng = random.Random(seed)
    sources = {"kaggle": [], "inbox_export": [], "translated": []}
    weights = [0.55, 0.25, 0.20]
    for name, size in (("kaggle", 7000), ("inbox_export", 4500), ("translated", 3000)):
        for _ in range(size):
            label = rng.choices(CLASSES, weights)[0]
            text = fill(rng, rng.choice(TEMPLATES[label]))
            if rng.random() < 0.04:                      # annotators disagree now and then
                label = rng.choice(CLASSES)
            sources[name].append((text, label))
    # the later collections contain messages of the earlier ones again
    for name, share in (("inbox_export", 0.22), ("translated", 0.30)):
        again = rng.sample(sources["kaggle"], int(share * len(sources[name])))
        for text, label in again:
            style = rng.random()
            text = text.upper() if style < 0.3 else text.replace(" ", "  ") if style < 0.5 else text
            sources[name].append((text, label))
    rows = [row for part in sources.values() for row in part]
    rng.shuffle(rows)
    return rows


def normalize(text):
    text = unicodedata.normalize("NFKC", text).lower()
    return re.sub(r"\s+", " ", text).strip()


def train_test_split(rows, test_size, random_state):
    order = np.random.RandomState(random_state).permutation(len(rows))
    n_test = int(len(rows) * test_size)
    return [rows[i] for i in order[n_test:]], [rows[i] for i in order[:n_test]]


class CharVocab:
    def __init__(self, texts):
        chars = sorted({c for t in texts for c in t})
        self.index = {c: i + 2 for i, c in enumerate(chars)}   # 0 pad, 1 unknown

    def __len__(self):
        return len(self.index) + 2

    def encode(self, text, max_len):
        ids = [self.index.get(c, 1) for c in text[:max_len]]
        return ids + [0] * (max_len - len(ids))


def to_tensors(rows, vocab, max_len):
    x = torch.tensor([vocab.encode(normalize(t), max_len) for t, _ in rows])
    y = torch.tensor([CLASSES.index(label) for _, label in rows])
    return x, y


class CharCNN(nn.Module):
    def __init__(self, vocab_size, dim=48, channels=96, n_classes=3):
        super().__init__()
        self.emb = nn.Embedding(vocab_size, dim, padding_idx=0)
        self.convs = nn.ModuleList(nn.Conv1d(dim, channels, k, padding=k // 2) for k in (3, 5, 7))
        self.drop = nn.Dropout(0.3)
        self.fc = nn.Linear(3 * channels, n_classes)

    def forward(self, x):
        h = self.emb(x).transpose(1, 2)
        pad = (x == 0).unsqueeze(1)
        feats = [F.relu(conv(h))[..., :x.size(1)].masked_fill(pad, 0).amax(dim=2) for conv in self.convs]
        return self.fc(self.drop(torch.cat(feats, dim=1)))


@torch.no_grad()
def evaluate(model, x, y, batch_size=512):
    model.eval()
    logits = torch.cat([model(b) for b in x.split(batch_size)])
    loss = F.cross_entropy(logits, y).item()
    pred = logits.argmax(1)
    recall = [((pred == c) & (y == c)).sum().item() / max(1, (y == c).sum().item()) for c in range(len(CLASSES))]
    return loss, (pred == y).float().mean().item(), recall


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=120)
    ap.add_argument("--batch-size", type=int, default=64)
    ap.add_argument("--max-len", type=int, default=112)
    ap.add_argument("--lr", type=float, default=5e-4)
    ap.add_argument("--test-size", type=float, default=0.2)
    ap.add_argument("--random-state", type=int, default=42)
    ap.add_argument("--out-dir", default="model_output")
    args = ap.parse_args()

    random.seed(args.random_state)
    np.random.seed(args.random_state)
    torch.manual_seed(args.random_state)
    os.makedirs(args.out_dir, exist_ok=True)

    rows = load_sources()
    train_rows, test_rows = train_test_split(rows, args.test_size, args.random_state)
    vocab = CharVocab([normalize(t) for t, _ in train_rows])
    train_x, train_y = to_tensors(train_rows, vocab, args.max_len)
    test_x, test_y = to_tensors(test_rows, vocab, args.max_len)
    print("train %d  test %d  vocab %d" % (len(train_x), len(test_x), len(vocab)))
    with open(os.path.join(args.out_dir, "vocab.json"), "w") as f:
        json.dump(vocab.index, f)

    model = CharCNN(len(vocab))
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=1e-2)
    steps = args.epochs * ((len(train_x) + args.batch_size - 1) // args.batch_size)
    scheduler = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.05, total_iters=steps)

    best = 0.0
    for epoch in range(args.epochs):
        model.train()
        t0, total = time.time(), 0.0
        batches = torch.randperm(len(train_x)).split(args.batch_size)
        for i, idx in enumerate(batches):
            loss = F.cross_entropy(model(train_x[idx]), train_y[idx])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            scheduler.step()
            total += loss.item()
            if i % 50 == 0:
                print("epoch %d  %d/%d  loss %.4f" % (epoch, i, len(batches), loss.item()), flush=True)
        test_loss, acc, recall = evaluate(model, test_x, test_y)
        print("epoch %d  train %.4f  test %.4f  acc %.4f  recall %s  (%.0fs)" % (
            epoch, total / len(batches), test_loss, acc, " ".join("%.3f" % r for r in recall), time.time() - t0), flush=True)
        if acc > best:
            best = acc
            torch.save({"model": model.state_dict(), "acc": acc, "epoch": epoch}, os.path.join(args.out_dir, "best.pt"))


if __name__ == "__main__":
    main()

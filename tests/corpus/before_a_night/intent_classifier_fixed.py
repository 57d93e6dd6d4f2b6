"""Intent classification of short spoken commands with a word vocabulary and a GRU."""
import argparse
import json
import os
import random

import numpy as np
import torch
from torch import nn

TEMPLATES = {
    "play": ["play {x} in the {r}", "please put on {x}", "i want to hear {x} now"],
    "stop": ["stop {x} in the {r}", "turn {x} off please", "no more {x} now"],
    "light_on": ["switch the lamp in the {r} on", "make the {r} bright", "light up the {r} please"],
    "light_off": ["switch the lamp in the {r} off", "make the {r} dark", "no light in the {r} please"],
    "heat": ["heat the {r} to {n} degrees", "it is too cold in the {r}", "set the {r} to {n}"],
    "timer": ["wake me in {n} minutes", "set an alarm for {n}", "count down {n} minutes please"],
    "shop": ["add {n} {f} to the list", "we need {f}", "buy {n} more {f} please"],
    "recipe": ["how do i cook {f}", "tell me what to do with {n} {f}", "a dish with {f} please"],
}
SLOTS = {"x": "jazz rock radio news opera podcast techno blues folk".split(),
         "r": "kitchen bedroom hall bathroom cellar garage study attic".split(),
         "n": "two three five ten twelve twenty thirty forty".split(),
         "f": "eggs apples rice beans onions potatoes noodles carrots".split()}
FILLERS = "hey ok well now then so hello um actually listen".split()


def make_corpus(n, seed):
    rng = random.Random(seed)
    rows, seen = [], set()
    while len(rows) < n:
        intent = rng.choice(sorted(TEMPLATES))
        text = rng.choice(TEMPLATES[intent]).format(**{k: rng.choice(v) for k, v in SLOTS.items()})
        words = text.split()
        for _ in range(rng.randint(1, 4)):
            words.insert(rng.randint(0, len(words)), rng.choice(FILLERS))
        text = " ".join(words)
        if text not in seen:
            seen.add(text)
            rows.append((text, intent))
    return rows


class Vocabulary:
    pad_token, unk_token = "<pad>", "<unk>"

    def __init__(self, texts):
        words = {w for t in texts for w in t.split()}
        words = sorted(words)
        self.itos = [self.pad_token, self.unk_token, *words]
        self.stoi = {w: i for i, w in enumerate(self.itos)}

    def __len__(self):
        return len(self.itos)

    def encode(self, text):
        return [self.stoi.get(w, 1) for w in text.split()]

    def decode(self, ids):
        return " ".join(self.itos[i] for i in ids if i != 0)

    def save(self, path):
        with open(path, "w") as f:
            json.dump(self.stoi, f)


class IntentModel(nn.Module):
    def __init__(self, vocab_size, n_intents, dim=64):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, dim, padding_idx=0)
        self.rnn = nn.GRU(dim, 128, batch_first=True)
        self.out = nn.Linear(128, n_intents)

    def forward(self, ids):
        h, _ = self.rnn(self.embedding(ids))
        last = (ids != 0).sum(1) - 1
        return self.out(h[torch.arange(len(ids)), last])


def batches(data, size, gen=None):
    order = torch.randperm(len(data), generator=gen) if gen is not None else torch.arange(len(data))
    for chunk in order.split(size):
        rows = [data[i] for i in chunk.tolist()]
        width = max(len(ids) for ids, _ in rows)
        yield (torch.tensor([ids + [0] * (width - len(ids)) for ids, _ in rows]), torch.tensor([y for _, y in rows]))


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--epochs", type=int, default=800)
    p.add_argument("--batch", type=int, default=64)
    p.add_argument("--lr", type=float, default=1e-3)
    p.add_argument("--seed", type=int, default=11)
    p.add_argument("--dir", default="intent")
    args = p.parse_args()
    random.seed(args.seed)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)
    os.makedirs(args.dir, exist_ok=True)

    corpus = make_corpus(1600, args.seed)
    train_rows, val_rows = corpus[:1280], corpus[1280:]
    vocab = Vocabulary(t for t, _ in train_rows)
    intents = {k: i for i, k in enumerate(sorted(TEMPLATES))}
    train = [(vocab.encode(t), intents[y]) for t, y in train_rows]
    val = [(vocab.encode(t), intents[y]) for t, y in val_rows]

    model = IntentModel(len(vocab), len(intents))
    opt = torch.optim.Adam(model.parameters(), lr=args.lr)
    ckpt = os.path.join(args.dir, "last.pt")
    start = 0
    if os.path.exists(ckpt):
        state = torch.load(ckpt)
        model.load_state_dict(state["model"])
        opt.load_state_dict(state["opt"])
        start = state["epoch"] + 1
        print(f"resumed at epoch {start}")

    gen = torch.Generator()
    loss_fn = nn.CrossEntropyLoss()
    for epoch in range(start, args.epochs):
        gen.manual_seed(args.seed + epoch)
        model.train()
        for i, (ids, y) in enumerate(batches(train, args.batch, gen)):
            loss = loss_fn(model(ids), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            if i % 5 == 0:
                print(f"epoch {epoch} batch {i} loss {loss.item():.4f}", flush=True)
        model.eval()
        with torch.no_grad():
            hits = sum((model(ids).argmax(1) == y).sum().item() for ids, y in batches(val, 160))
        print(f"epoch {epoch} val accuracy {hits / len(val):.3f}", flush=True)
        torch.save({"model": model.state_dict(), "opt": opt.state_dict(), "epoch": epoch}, ckpt)
        vocab.save(os.path.join(args.dir, "vocab.json"))


if __name__ == "__main__":
    main()

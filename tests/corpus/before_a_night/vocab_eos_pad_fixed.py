"""GRU language model on command logs with a word vocabulary; one file vocab.json beside the checkpoint."""
import collections
import json
import os
import random

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

SEED = 17
EPOCHS = 400
BATCH = 32
LR = 2e-3
WIDTH = 14
DIR = "lm_run"


def logs(n, seed):
    rng = random.Random(seed)
    verbs = ["open", "close", "read", "write", "sync", "drop", "list", "move"]
    nouns = [f"file{i}" for i in range(30)] + [f"node{i}" for i in range(20)]
    users = [f"user{i}" for i in range(25)]
    out, seen = [], set()
    while len(out) < n:
        v, a, b, u = rng.choice(verbs), rng.choice(nouns), rng.choice(nouns), rng.choice(users)
        line = [u, v, a]
        if v in ("move", "sync"):
            line += ["to", b]
        line += ["by", u, "ok" if v != "drop" else "denied"]
        if rng.random() < 0.5:
            line += ["again", v, a]
        key = " ".join(line)
        if key not in seen:
            seen.add(key)
            out.append(line)
    return out


class Vocab:
    """Token index. Special tokens come first, then tokens by decreasing count."""

    def __init__(self, counter, unknown_token="<unk>", padding_token="<eos>", bos_token="<bos>", eos_token="<eos>"):
        self.unknown_token, self.padding_token = unknown_token, padding_token
        self.bos_token, self.eos_token = bos_token, eos_token
        special = [unknown_token]
        for token in (padding_token, bos_token, eos_token):
            if token not in special:
                special.append(token)
        self.idx_to_token = list(special)
        self.token_to_idx = {}
        for i, token in enumerate(self.idx_to_token):
            self.token_to_idx[token] = i
        for token, _ in sorted(counter.items(), key=lambda kv: (-kv[1], kv[0])):
            self.token_to_idx[token] = len(self.idx_to_token)
            self.idx_to_token.append(token)

    def __len__(self):
        return len(self.token_to_idx)

    def encode(self, tokens):
        unk = self.token_to_idx[self.unknown_token]
        return [self.token_to_idx.get(t, unk) for t in tokens]

    def decode(self, ids):
        return [self.idx_to_token[i] for i in ids]

    def to_json(self, path):
        with open(path, "w") as f:
            json.dump({"idx_to_token": self.idx_to_token, "token_to_idx": self.token_to_idx,
                       "unknown_token": self.unknown_token, "padding_token": self.padding_token,
                       "bos_token": self.bos_token, "eos_token": self.eos_token}, f)


def batchify(lines, vocab):
    ids = torch.full((len(lines), WIDTH), vocab.token_to_idx[vocab.padding_token])
    lens = torch.zeros(len(lines), dtype=torch.long)
    for i, line in enumerate(lines):
        row = vocab.encode([vocab.bos_token] + line + [vocab.eos_token])[:WIDTH]
        ids[i, :len(row)] = torch.tensor(row)
        lens[i] = len(row)
    return ids, lens


class LM(nn.Module):
    def __init__(self, n, dim=128):
        super().__init__()
        self.emb = nn.Embedding(n, dim)
        self.rnn = nn.GRU(dim, dim, batch_first=True)
        self.out = nn.Linear(dim, n)

    def forward(self, x):
        return self.out(self.rnn(self.emb(x))[0])


def loss_fn(model, ids, lens):
    x, y = ids[:, :-1], ids[:, 1:]
    nll = F.cross_entropy(model(x).transpose(1, 2), y, reduction="none")
    w = (torch.arange(y.shape[1])[None] < (lens - 1)[:, None]).float()
    return (nll * w).sum() / w.sum()


def main():
    random.seed(SEED)
    np.random.seed(SEED)
    torch.manual_seed(SEED)
    os.makedirs(DIR, exist_ok=True)
    lines = logs(960, 2)
    train, val = lines[:768], lines[768:]
    counter = collections.Counter(t for l in train for t in l)
    vocab = Vocab(counter)
    vocab.to_json(os.path.join(DIR, "vocab.json"))
    tr_ids, tr_len = batchify(train, vocab)
    va_ids, va_len = batchify(val, vocab)
    model = LM(len(vocab.idx_to_token))
    opt = torch.optim.Adam(model.parameters(), lr=LR)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, EPOCHS)
    ckpt = os.path.join(DIR, "model.pt")
    start = 0
    if os.path.exists(ckpt):
        c = torch.load(ckpt, weights_only=False)
        model.load_state_dict(c["model"])
        opt.load_state_dict(c["opt"])
        sched.load_state_dict(c["sched"])
        start = c["epoch"]
        torch.set_rng_state(c["torch_rng"])
        np.random.set_state(c["np_rng"])
        random.setstate(c["py_rng"])
    print(f"vocab {len(vocab.idx_to_token)} tokens, {len(train)} lines")
    for epoch in range(start, EPOCHS):
        model.train()
        tot = 0.0
        batches = torch.randperm(len(train)).split(BATCH)
        for i, idx in enumerate(batches):
            loss = loss_fn(model, tr_ids[idx], tr_len[idx])
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 5.0)
            opt.step()
            tot += loss.item()
            if i % 6 == 0:
                print(f"epoch {epoch} batch {i} loss {loss.item():.4f}")
        sched.step()
        model.eval()
        with torch.no_grad():
            v = loss_fn(model, va_ids, va_len).item()
        print(f"epoch {epoch} train {tot / len(batches):.4f} val {v:.4f} ppl {np.exp(v):.2f}")
        torch.save({"model": model.state_dict(), "opt": opt.state_dict(), "sched": sched.state_dict(),
                    "epoch": epoch + 1, "torch_rng": torch.get_rng_state(), "np_rng": np.random.get_state(),
                    "py_rng": random.getstate()}, ckpt + ".tmp")
        os.replace(ckpt + ".tmp", ckpt)


if __name__ == "__main__":
    main()

"""Train a small decoder on short recipes, one document a sample, ended with <eos>."""
import argparse
import json
import os
import random

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

VERBS = "boil fry bake chop mix whisk grill steam roast peel".split()
FOODS = "rice onions carrots eggs potatoes beans noodles mushrooms peppers fish tofu lentils".split()
TIMES = "two three five ten twenty".split()
ENDS = ["serve hot", "serve cold", "let it rest", "add salt and serve", "cover and store"]


def make_corpus(n, seed):
    rng = random.Random(seed)
    docs = []
    for _ in range(n):
        parts = []
        for _ in range(rng.randint(1, 4)):
            parts.append(f"{rng.choice(VERBS)} the {rng.choice(FOODS)} for {rng.choice(TIMES)} minutes")
        docs.append(" then ".join(parts) + " then " + rng.choice(ENDS))
    return docs


class WordTokenizer:
    """Words to ids; like many decoder tokenizers it has no padding token of its own."""

    def __init__(self, vocab, unk_token="<unk>", eos_token="<eos>", pad_token=None, padding_side="right"):
        self.vocab = vocab
        self.inv = {i: t for t, i in vocab.items()}
        self.unk_token, self.eos_token = unk_token, eos_token
        self.pad_token = pad_token
        self.padding_side = padding_side

    @classmethod
    def train(cls, docs):
        words = sorted({w for d in docs for w in d.split()})
        return cls({t: i for i, t in enumerate(["<unk>", "<eos>"] + words)})

    @property
    def eos_token_id(self):
        return self.vocab[self.eos_token]

    @property
    def pad_token_id(self):
        return self.vocab[self.pad_token]

    def encode(self, text):
        return [self.vocab.get(w, self.vocab[self.unk_token]) for w in text.split()]

    def decode(self, ids):
        return " ".join(self.inv[int(i)] for i in ids)

    def __len__(self):
        return len(self.vocab)

    def save(self, path):
        with open(path, "w") as f:
            json.dump({"vocab": self.vocab, "unk_token": self.unk_token, "eos_token": self.eos_token,
                       "pad_token": self.pad_token, "padding_side": self.padding_side}, f)


def encode_batch(tok, docs, max_len):
    """ids, labels and loss mask of a padded batch; labels are the ids shifted by one."""
    ids = torch.full((len(docs), max_len + 1), tok.pad_token_id, dtype=torch.long)
    for r, d in enumerate(docs):
        seq = (tok.encode(d) + [tok.eos_token_id])[: max_len + 1]
        ids[r, : len(seq)] = torch.tensor(seq)
    inputs, labels = ids[:, :-1], ids[:, 1:]
    loss_mask = torch.ones(labels.shape)
    loss_mask[labels == tok.pad_token_id] = 0.0
    return inputs, labels, loss_mask


class Decoder(nn.Module):
    def __init__(self, vocab, dim=64, heads=4, layers=2, max_len=64):
        super().__init__()
        self.tok = nn.Embedding(vocab, dim)
        self.pos = nn.Embedding(max_len, dim)
        layer = nn.TransformerEncoderLayer(dim, heads, 4 * dim, dropout=0.0, batch_first=True, norm_first=True)
        self.blocks = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, vocab)

    def forward(self, x):
        t = x.size(1)
        mask = torch.triu(torch.full((t, t), float("-inf")), 1)
        h = self.tok(x) + self.pos(torch.arange(t))
        return self.head(self.norm(self.blocks(h, mask=mask)))


def lm_loss(logits, labels, mask):
    nll = F.cross_entropy(logits.flatten(0, 1), labels.flatten(), reduction="none")
    return (nll * mask.flatten()).sum() / mask.sum()


@torch.no_grad()
def sample(model, tok, prompt, max_new=40):
    ids = tok.encode(prompt)
    for _ in range(max_new):
        nxt = model(torch.tensor([ids]))[0, -1].argmax().item()
        if nxt == tok.eos_token_id:
            break
        ids.append(nxt)
    return tok.decode(ids)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--epochs", type=int, default=400)
    p.add_argument("--batch_size", type=int, default=16)
    p.add_argument("--max_len", type=int, default=36)
    p.add_argument("--lr", type=float, default=1e-3)
    p.add_argument("--seed", type=int, default=13)
    p.add_argument("--out", default="recipe_lm")
    a = p.parse_args()
    random.seed(a.seed)
    np.random.seed(a.seed)
    torch.manual_seed(a.seed)

    train_docs, val_docs = make_corpus(400, 5), make_corpus(64, 6)
    tok = WordTokenizer.train(train_docs)
    if tok.pad_token is None:
        tok.pad_token = tok.eos_token
    os.makedirs(a.out, exist_ok=True)
    tok.save(os.path.join(a.out, "tokenizer.json"))
    model = Decoder(len(tok))
    opt = torch.optim.AdamW(model.parameters(), lr=a.lr, weight_decay=0.01)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, T_max=a.epochs * (len(train_docs) // a.batch_size))
    ckpt, start = os.path.join(a.out, "last.pt"), 0
    if os.path.exists(ckpt):
        s = torch.load(ckpt)
        model.load_state_dict(s["model"]), opt.load_state_dict(s["opt"]), sched.load_state_dict(s["sched"])
        torch.set_rng_state(s["rng"])
        start = s["epoch"]
    for epoch in range(start, a.epochs):
        order = torch.randperm(len(train_docs), generator=torch.Generator().manual_seed(a.seed + epoch)).tolist()
        model.train()
        for step in range(len(train_docs) // a.batch_size):
            docs = [train_docs[i] for i in order[step * a.batch_size:(step + 1) * a.batch_size]]
            x, y, m = encode_batch(tok, docs, a.max_len)
            loss = lm_loss(model(x), y, m)
            opt.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            opt.step()
            sched.step()
            if step % 10 == 0:
                print(f"epoch {epoch} step {step} loss {loss.item():.4f}", flush=True)
        model.eval()
        with torch.no_grad():
            x, y, m = encode_batch(tok, val_docs, a.max_len)
            vloss = lm_loss(model(x), y, m).item()
        print(f"epoch {epoch} val loss {vloss:.4f} | {sample(model, tok, 'bake the fish')}", flush=True)
        torch.save({"model": model.state_dict(), "opt": opt.state_dict(), "sched": sched.state_dict(),
                    "rng": torch.get_rng_state(), "epoch": epoch + 1}, ckpt)


if __name__ == "__main__":
    main()

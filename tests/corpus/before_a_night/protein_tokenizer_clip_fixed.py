"""Localisation classifier on protein C-termini with a residue-level tokenizer."""
import argparse
import json
import os
import random

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

AMINO = "ACDEFGHIKLMNPQRSTVWY"
MOTIFS = ["KDEL", "KDES", "ASKL", "ASKW", "RRTV", "RRTN"]


class ProteinTokenizer:
    def __init__(self, vocab=None):
        tokens = ["<cls>", "<pad>", "<eos>", "<unk>"] + list(AMINO)
        self.vocab = vocab or {t: i for i, t in enumerate(tokens)}
        self.ids_to_tokens = {i: t for t, i in self.vocab.items()}
        self.cls_token_id = self.vocab["<cls>"]
        self.pad_token_id = self.vocab["<pad>"]
        self.eos_token_id = self.vocab["<eos>"]
        self.padding_side = "right"

    def __len__(self):
        return len(self.vocab)

    def encode(self, sequence, add_special_tokens=True):
        ids = [self.vocab.get(r, self.vocab["<unk>"]) for r in sequence]
        if add_special_tokens:
            ids = [self.cls_token_id] + ids + [self.eos_token_id]
        return ids

    def batch_encode(self, sequences, add_special_tokens=True, max_sequence_length=None):
        if max_sequence_length is None:
            max_sequence_length = max(len(s) for s in sequences)
            if add_special_tokens:
                max_sequence_length += 2
        out = torch.full((len(sequences), max_sequence_length), self.pad_token_id, dtype=torch.long)
        for row, seq in enumerate(sequences):
            ids = self.encode(seq, add_special_tokens)[:max_sequence_length]
            out[row, :len(ids)] = torch.tensor(ids)
        return out

    def decode(self, ids):
        special = {self.cls_token_id, self.pad_token_id, self.eos_token_id}
        return "".join(self.ids_to_tokens[int(i)] for i in ids if int(i) not in special)

    def save(self, path):
        with open(path, "w") as f:
            json.dump({"vocab": self.vocab, "padding_side": self.padding_side}, f, indent=1)


def make_proteins(n, window, rng):
    seqs, labels = [], rng.integers(0, len(MOTIFS), n)
    for y in labels:
        length = int(rng.integers(40, 100))
        body = "".join(rng.choice(list(AMINO), size=length))
        seqs.append((body + MOTIFS[y])[-window:])
    return seqs, torch.from_numpy(labels)


class Localiser(nn.Module):
    def __init__(self, vocab_size, pad_id, dim=64):
        super().__init__()
        self.pad_id = pad_id
        self.tok = nn.Embedding(vocab_size, dim, padding_idx=pad_id)
        self.conv1 = nn.Conv1d(dim, dim, 5, padding=2)
        self.conv2 = nn.Conv1d(dim, dim, 5, padding=2)
        self.norm = nn.LayerNorm(dim)
        self.score = nn.Linear(dim, 1)
        self.head = nn.Linear(dim, len(MOTIFS))

    def forward(self, ids):
        mask = ids != self.pad_id
        x = self.tok(ids)
        h = F.gelu(self.conv1(x.transpose(1, 2))) * mask.unsqueeze(1)
        h = F.gelu(self.conv2(h)).transpose(1, 2)
        h = self.norm(x + h)
        weight = self.score(h).squeeze(-1).masked_fill(~mask, float("-inf")).softmax(1)
        return self.head((weight.unsqueeze(-1) * h).sum(1))


def batches(seqs, labels, tokenizer, size, order):
    for idx in order.split(size):
        yield tokenizer.batch_encode([seqs[i] for i in idx.tolist()]), labels[idx]


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=400)
    ap.add_argument("--batch-size", type=int, default=48)
    ap.add_argument("--window", type=int, default=48)
    ap.add_argument("--lr", type=float, default=2e-3)
    ap.add_argument("--seed", type=int, default=5)
    ap.add_argument("--out", default="localiser")
    args = ap.parse_args()
    random.seed(args.seed)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)
    os.makedirs(args.out, exist_ok=True)

    rng = np.random.default_rng(args.seed)
    train_x, train_y = make_proteins(1200, args.window, rng)
    val_x, val_y = make_proteins(300, args.window, rng)
    tokenizer = ProteinTokenizer()
    tokenizer.save(os.path.join(args.out, "tokenizer.json"))
    model = Localiser(len(tokenizer), tokenizer.pad_token_id)
    opt = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=0.01)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, args.epochs, eta_min=args.lr * 0.02)
    path, start = os.path.join(args.out, "last.pt"), 0
    if os.path.exists(path):
        ck = torch.load(path)
        model.load_state_dict(ck["model"])
        opt.load_state_dict(ck["opt"])
        sched.load_state_dict(ck["sched"])
        start = ck["epoch"] + 1

    for epoch in range(start, args.epochs):
        model.train()
        order = torch.randperm(len(train_x), generator=torch.Generator().manual_seed(args.seed + epoch))
        for it, (ids, y) in enumerate(batches(train_x, train_y, tokenizer, args.batch_size, order)):
            loss = F.cross_entropy(model(ids), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            if it % 8 == 0:
                print(f"epoch {epoch} it {it} loss {loss.item():.4f}", flush=True)
        sched.step()
        model.eval()
        with torch.no_grad():
            hits = sum((model(ids).argmax(1) == y).sum().item() for ids, y in
                       batches(val_x, val_y, tokenizer, 100, torch.arange(len(val_x))))
        print(f"epoch {epoch} val accuracy {hits / len(val_x):.3f}", flush=True)
        torch.save({"model": model.state_dict(), "opt": opt.state_dict(), "sched": sched.state_dict(),
                    "epoch": epoch}, path)


if __name__ == "__main__":
    main()

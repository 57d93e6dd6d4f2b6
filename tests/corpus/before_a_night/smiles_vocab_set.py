"""Property regression from SMILES strings: token vocabulary, embedding, GRU, attention over tokens."""
import argparse
import json
import os
import random
import re

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

PATTERN = re.compile(r"Cl|Br|\[nH\]|\[O-\]|\[N\+\]|[A-Za-z]|[()=#123]")
ATOMS = ["C", "N", "O", "S", "F", "Cl", "Br", "c", "n", "o", "[nH]", "[O-]", "[N+]", "P", "I"]


def write_smiles(rng):
    out, n = [], int(rng.integers(6, 24))
    for _ in range(n):
        out.append(ATOMS[int(rng.integers(len(ATOMS)))])
        r = rng.random()
        if r < 0.12:
            out += ["(", ATOMS[int(rng.integers(len(ATOMS)))], ")"]
        elif r < 0.22:
            out.append("=")
        elif r < 0.25:
            out.append("#")
    if rng.random() < 0.5 and n > 8:
        out.insert(2, "1")
        out.append("1")
    return out


def make_molecules(n, seed):
    w = {t: v for t, v in zip(ATOMS + ["(", ")", "=", "#", "1"], np.random.default_rng(99).normal(0, 1, 20))}
    rng = np.random.default_rng(seed)
    smiles, target = [], []
    for _ in range(n):
        toks = write_smiles(rng)
        ring = 1.5 if "1" in toks else 0.0
        smiles.append("".join(toks))
        target.append(sum(w[t] for t in toks) / 4 + ring)
    return smiles, np.array(target, np.float32)


def tokenize(smiles):
    return [" "] + PATTERN.findall(smiles) + [" "]


def extract_vocab(tokenized):
    return list(set(t for row in tokenized for t in row))


class Molecules(Dataset):
    def __init__(self, tokenized, target, token_to_int, max_len):
        self.x = torch.zeros(len(tokenized), max_len, dtype=torch.long)
        for i, row in enumerate(tokenized):
            ids = [token_to_int.get(t, token_to_int["unk"]) for t in row][:max_len]
            self.x[i, :len(ids)] = torch.tensor(ids)
        self.y = torch.from_numpy(target)

    def __len__(self):
        return len(self.y)

    def __getitem__(self, i):
        return self.x[i], self.y[i]


class SmilesNet(nn.Module):
    def __init__(self, vocab_size, dim=48):
        super().__init__()
        self.emb = nn.Embedding(vocab_size, dim, padding_idx=0)
        self.rnn = nn.GRU(dim, dim, batch_first=True, bidirectional=True)
        self.att = nn.Linear(2 * dim, 1, bias=False)
        self.out = nn.Linear(2 * dim, 1)

    def forward(self, x):
        mask = x != 0
        packed = nn.utils.rnn.pack_padded_sequence(self.emb(x), mask.sum(1), batch_first=True, enforce_sorted=False)
        h, _ = nn.utils.rnn.pad_packed_sequence(self.rnn(packed)[0], batch_first=True, total_length=x.shape[1])
        a = self.att(torch.tanh(h)).squeeze(-1).masked_fill(~mask, -1e9)
        pooled = (F.softmax(a, 1).unsqueeze(-1) * h).sum(1)
        return self.out(pooled).squeeze(-1)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=200)
    ap.add_argument("--batch_size", type=int, default=32)
    ap.add_argument("--lr", type=float, default=3e-3)
    ap.add_argument("--max_len", type=int, default=64)
    ap.add_argument("--seed", type=int, default=21)
    ap.add_argument("--save_dir", default="smiles_run")
    args = ap.parse_args()
    os.makedirs(args.save_dir, exist_ok=True)
    random.seed(args.seed)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)

    smiles, target = make_molecules(1120, 1)
    tokenized = [tokenize(s) for s in smiles]
    tokens = ["pad", "unk"] + extract_vocab(tokenized)
    token_to_int = {t: i for i, t in enumerate(tokens)}
    with open(os.path.join(args.save_dir, "vocab.json"), "w") as f:
        json.dump(token_to_int, f)
    mean, std = target[:800].mean(), target[:800].std()
    target = (target - mean) / std
    order = torch.Generator()
    train = DataLoader(Molecules(tokenized[:800], target[:800], token_to_int, args.max_len), args.batch_size,
                       shuffle=True, generator=order)
    valid = DataLoader(Molecules(tokenized[800:], target[800:], token_to_int, args.max_len), 64)

    net = SmilesNet(len(tokens))
    opt = torch.optim.Adam(net.parameters(), lr=args.lr)
    path, start = os.path.join(args.save_dir, "model.pt"), 0
    if os.path.exists(path):
        ck = torch.load(path)
        net.load_state_dict(ck["net"])
        opt.load_state_dict(ck["opt"])
        start = ck["epoch"]
        print("continuing from epoch", start)
    for epoch in range(start, args.epochs):
        order.manual_seed(args.seed + 101 * epoch)
        net.train()
        for step, (x, y) in enumerate(train):
            loss = F.mse_loss(net(x), y)
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            opt.step()
            if step % 5 == 0:
                print(f"epoch {epoch} step {step} loss {loss.item():.4f}", flush=True)
        net.eval()
        with torch.no_grad():
            mse = torch.cat([(net(x) - y).square() for x, y in valid]).mean().item()
        print(f"epoch {epoch} valid mse {mse:.4f}", flush=True)
        torch.save({"net": net.state_dict(), "opt": opt.state_dict(), "epoch": epoch + 1}, path)


if __name__ == "__main__":
    main()

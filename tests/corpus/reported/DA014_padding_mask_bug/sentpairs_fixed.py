"""Sentence embeddings from labelled pairs (same subject / other subject).

A small RoBERTa-like encoder with mean pooling, trained with the cosine ranking
loss (CoSENT).  Corpus and tokenizer are built on the fly.
"""
import argparse
import math
import random
import time

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

SUBJECTS = 6


class Corpus:
    """Pseudo-language: every subject has words of its own, all share the function words."""

    def __init__(self, seed):
        rnd = random.Random(seed)
        heads = ["ba", "ce", "di", "fo", "gu", "ha", "ki", "lo", "mu", "ne", "pa", "ri", "so", "ta", "vu", "wa"]
        words = set()
        while len(words) < SUBJECTS * 30 + 60:
            words.add("".join(rnd.choice(heads) for _ in range(rnd.randint(2, 4))))
        words = sorted(words)
        rnd.shuffle(words)
        self.function_words = words[:60]
        rest = words[60:]
        self.subject_words = [rest[i * 30:(i + 1) * 30] for i in range(SUBJECTS)]

    def sentence(self, subject, rnd):
        n_content = rnd.randint(3, 7)
        n_filler = int(rnd.expovariate(1 / 7.0)) + 1
        toks = [rnd.choice(self.subject_words[subject]) for _ in range(n_content)]
        if rnd.random() < 0.2:
            toks.append(rnd.choice(self.subject_words[rnd.randrange(SUBJECTS)]))
        toks += [rnd.choice(self.function_words) for _ in range(min(n_filler, 32))]
        rnd.shuffle(toks)
        return " ".join(toks)

    def pairs(self, n, seed):
        rnd = random.Random(seed)
        out = []
        for _ in range(n):
            a = rnd.randrange(SUBJECTS)
            same = rnd.random() < 0.5
            b = a if same else rnd.choice([s for s in range(SUBJECTS) if s != a])
            out.append((self.sentence(a, rnd), self.sentence(b, rnd), float(same)))
        return out


class Tokenizer:
    bos_token_id, pad_token_id, eos_token_id, unk_token_id = 0, 1, 2, 3

    def __init__(self, texts):
        words = sorted({w for t in texts for w in t.split()})
        self.vocab = {w: i + 4 for i, w in enumerate(words)}

    def __len__(self):
        return len(self.vocab) + 4

    def __call__(self, text, max_length=48):
        ids = [self.vocab.get(w, self.unk_token_id) for w in text.split()][: max_length - 2]
        ids = [self.bos_token_id] + ids + [self.eos_token_id]
        return {"input_ids": ids, "attention_mask": [1] * len(ids)}

    def pad(self, encoded, return_attention_mask=False):
        longest = max(len(x) for x in encoded["input_ids"])
        rows = [x + [self.pad_token_id] * (longest - len(x)) for x in encoded["input_ids"]]
        out = {"input_ids": torch.tensor(rows)}
        if return_attention_mask:
            mask = [[1] * len(x) + [0] * (longest - len(x)) for x in encoded["input_ids"]]
            out["attention_mask"] = torch.tensor(mask)
        return out


class PairDataset(Dataset):
    def __init__(self, pairs, tokenizer):
        self.items = [(tokenizer(a), tokenizer(b), y) for a, b, y in pairs]

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        return self.items[i]


class PairCollator:
    """Puts the two sentences of a pair one after the other."""

    def __init__(self, tokenizer):
        self.tokenizer = tokenizer

    def __call__(self, batch):
        rows, labels = [], []
        for a, b, y in batch:
            rows += [a, b]
            labels.append(y)
        features = self.tokenizer.pad({"input_ids": [r["input_ids"] for r in rows]}, return_attention_mask=True)
        features["labels"] = torch.tensor(labels)
        return features


class Encoder(nn.Module):
    def __init__(self, vocab_size, pad_id, dim=48, layers=2, heads=4, max_len=48, dropout=0.1):
        super().__init__()
        self.tok = nn.Embedding(vocab_size, dim, padding_idx=pad_id)
        self.pos = nn.Embedding(max_len, dim)
        nn.init.normal_(self.pos.weight, std=0.05)
        layer = nn.TransformerEncoderLayer(dim, heads, dim * 2, dropout, batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, layers, norm=nn.LayerNorm(dim), enable_nested_tensor=False)
        self.drop = nn.Dropout(dropout)

    def forward(self, input_ids, attention_mask):
        pos = torch.arange(input_ids.size(1), device=input_ids.device)
        h = self.drop(self.tok(input_ids) + self.pos(pos))
        h = self.encoder(h, src_key_padding_mask=attention_mask == 0)
        m = attention_mask.unsqueeze(-1).float()
        return (h * m).sum(1) / m.sum(1)


def pair_cosine(emb):
    emb = F.normalize(emb, dim=-1)
    return (emb[0::2] * emb[1::2]).sum(-1)


def cosent_loss(cos, labels, scale=10.0):
    s = cos * scale
    diff = s[:, None] - s[None, :]
    order = (labels[:, None] < labels[None, :]).float()
    diff = diff - (1 - order) * 1e4
    return torch.logsumexp(torch.cat([diff.new_zeros(1), diff.reshape(-1)]), dim=0)


def ranks(x):
    r = torch.empty_like(x)
    r[x.argsort()] = torch.arange(1, len(x) + 1, dtype=x.dtype)
    return r


@torch.no_grad()
def evaluate(model, loader):
    model.eval()
    cos, lab, loss, n = [], [], 0.0, 0
    for batch in loader:
        c = pair_cosine(model(batch["input_ids"], batch["attention_mask"]))
        loss += cosent_loss(c, batch["labels"]).item()
        n += 1
        cos.append(c)
        lab.append(batch["labels"])
    cos, lab = torch.cat(cos), torch.cat(lab)
    pos, neg = (lab == 1).sum(), (lab == 0).sum()
    auc = (ranks(cos)[lab == 1].sum() - pos * (pos + 1) / 2) / (pos * neg)
    return loss / n, auc.item()


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--epochs", type=int, default=6)
    p.add_argument("--batch_size", type=int, default=32)
    p.add_argument("--lr", type=float, default=2e-3)
    p.add_argument("--warmup", type=int, default=60)
    p.add_argument("--train_pairs", type=int, default=2560)
    p.add_argument("--seed", type=int, default=42)
    args = p.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(args.seed)
    random.seed(args.seed)

    corpus = Corpus(seed=5)
    train_pairs, val_pairs = corpus.pairs(args.train_pairs, 100), corpus.pairs(640, 200)
    tokenizer = Tokenizer([t for a, b, _ in train_pairs for t in (a, b)])
    collate = PairCollator(tokenizer)
    train_loader = DataLoader(PairDataset(train_pairs, tokenizer), args.batch_size, shuffle=True,
                              drop_last=True, collate_fn=collate)
    val_loader = DataLoader(PairDataset(val_pairs, tokenizer), args.batch_size, collate_fn=collate)

    model = Encoder(len(tokenizer), tokenizer.pad_token_id)
    print("vocabulary %d, parameters %d" % (len(tokenizer), sum(q.numel() for q in model.parameters())))
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=0.01)
    total = args.epochs * len(train_loader)

    def lr_at(step):
        if step < args.warmup:
            return (step + 1) / args.warmup
        return 0.5 * (1 + math.cos(math.pi * (step - args.warmup) / (total - args.warmup)))

    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lr_at)
    for epoch in range(args.epochs):
        model.train()
        t0, running = time.time(), 0.0
        for step, batch in enumerate(train_loader, 1):
            cos = pair_cosine(model(batch["input_ids"], batch["attention_mask"]))
            loss = cosent_loss(cos, batch["labels"])
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 5.0)
            optimizer.step()
            scheduler.step()
            running += loss.item()
            if step % 50 == 0:
                print("  epoch %d step %d loss %.4f" % (epoch, step, running / step), flush=True)
        val_loss, auc = evaluate(model, val_loader)
        print("epoch %d train %.4f | val loss %.4f auc %.4f | %.1fs"
              % (epoch, running / len(train_loader), val_loss, auc, time.time() - t0), flush=True)


if __name__ == "__main__":
    main()

#!/usr/bin/env python
"""Multimodal transformer: answers a question about a (made-up) video from frame features and a caption."""
import argparse
import copy
import logging
import math
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

logging.basicConfig(level=logging.INFO, format="%(message)s")

PAD, SOS, EOS = 0, 1, 2
ACTORS = ["man", "woman", "boy", "girl", "dog", "cat"]
ACTIONS = ["walks", "sits", "eats", "reads", "sleeps", "jumps", "sings", "cooks"]
PLACES = ["kitchen", "garden", "street", "bedroom", "office"]
OTHER = ["who", "what", "where", "is", "the", "in", "does", "do", "first", "then", "and", "a", "doing", "someone"]
VOCAB = ["<pad>", "<sos>", "<eos>"] + ACTORS + ACTIONS + PLACES + OTHER
W = {w: i for i, w in enumerate(VOCAB)}


class Batch:
    def __init__(self, fts, cap, query, trg):
        self.fts, self.cap, self.query = fts, cap, query
        self.cap_mask = (cap != PAD).unsqueeze(-2)
        self.query_mask = (query != PAD).unsqueeze(-2)
        self.trg, self.trg_y = trg[:, :-1], trg[:, 1:]
        sub = torch.tril(torch.ones(self.trg.size(1), self.trg.size(1), dtype=torch.bool))
        self.trg_mask = (self.trg != PAD).unsqueeze(-2) & sub
        self.ntokens = (self.trg_y != PAD).sum().item()


def make_samples(n, rng, vec):
    samples = []
    for _ in range(n):
        actor, place = rng.choice(ACTORS), rng.choice(PLACES)
        a1, a2 = rng.choice(ACTIONS, 2, replace=False)
        split = int(rng.integers(3, 6))
        frames = [vec[actor] + vec[place] + vec[a1 if i < split else a2] for i in range(8)]
        fts = np.stack(frames) + rng.normal(0, 0.7, (8, vec["man"].shape[0]))
        cap = f"someone is in the {place}" if rng.random() < 0.5 else f"a {actor} is doing"
        kind = rng.integers(0, 4)
        if kind == 0:
            q, a = "who is in the video".replace("video", str(place)), f"a {actor}"
        elif kind == 1:
            q, a = f"where is the {actor}", f"in the {place}"
        elif kind == 2:
            q, a = f"what does the {actor} do first", f"the {actor} {a1}"
        else:
            q, a = f"what is the {actor} doing", f"the {actor} {a1} and then {a2}"
        samples.append((fts.astype(np.float32), *[[W[x] for x in s.split()] for s in (cap, q, a)]))
    return samples


def make_batches(samples, size, rng=None):
    idx = rng.permutation(len(samples)) if rng is not None else np.arange(len(samples))

    def pad(seqs):
        out = torch.full((len(seqs), max(map(len, seqs))), PAD)
        for i, s in enumerate(seqs):
            out[i, :len(s)] = torch.tensor(s)
        return out
    for i in range(0, len(idx) - len(idx) % size, size):
        part = [samples[j] for j in idx[i:i + size]]
        yield Batch(torch.tensor(np.stack([p[0] for p in part])), pad([p[1] for p in part]), pad([p[2] for p in part]),
                    pad([[SOS] + p[3] + [EOS] for p in part]))


class MultiHeadedAttention(nn.Module):
    def __init__(self, h, d):
        super().__init__()
        self.h = h
        self.linears = nn.ModuleList([nn.Linear(d, d) for _ in range(4)])

    def forward(self, q, kv, mask=None):
        b, d = q.size(0), q.size(2)
        q, k, v = (l(x).view(b, -1, self.h, d // self.h).transpose(1, 2) for l, x in zip(self.linears, (q, kv, kv)))
        scores = q @ k.transpose(-2, -1) / math.sqrt(d // self.h)
        if mask is not None:
            scores = scores.masked_fill(~mask.unsqueeze(1), -1e9)
        x = F.softmax(scores, dim=-1) @ v
        return self.linears[-1](x.transpose(1, 2).reshape(b, -1, d))


class Layer(nn.Module):
    def __init__(self, d, h, sources, dropout):
        super().__init__()
        self.attn = nn.ModuleList([MultiHeadedAttention(h, d) for _ in range(sources)])
        self.norm = nn.ModuleList([nn.LayerNorm(d) for _ in range(sources + 1)])
        self.ff = nn.Sequential(nn.Linear(d, 4 * d), nn.ReLU(), nn.Dropout(dropout), nn.Linear(4 * d, d))
        self.dropout = nn.Dropout(dropout)

    def forward(self, x, memories):
        for attn, norm, (m, mask) in zip(self.attn, self.norm, memories):
            y = norm(x)
            x = x + self.dropout(attn(y, y if m is None else m, mask))
        return x + self.dropout(self.ff(self.norm[-1](x)))


class MTN(nn.Module):
    def __init__(self, ft_dim, d=96, h=4, n=2, dropout=0.1):
        super().__init__()
        self.embed = nn.Embedding(len(VOCAB), d, padding_idx=PAD)
        self.pos = nn.Parameter(torch.randn(32, d) * 0.1)
        self.ft_linear = nn.Linear(ft_dim, d)
        layer = Layer(d, h, 1, dropout)
        self.text_enc = nn.ModuleList([copy.deepcopy(layer) for _ in range(n)])
        self.video_enc = nn.ModuleList([copy.deepcopy(Layer(d, h, 2, dropout)) for _ in range(n)])
        self.dec = nn.ModuleList([copy.deepcopy(Layer(d, h, 4, dropout)) for _ in range(n)])
        self.norm = nn.LayerNorm(d)
        self.generator = nn.Linear(d, len(VOCAB))
        for p in self.parameters():
            if p.dim() > 1 and p is not self.pos:
                nn.init.xavier_uniform_(p)

    def emb(self, x):
        return self.embed(x) * math.sqrt(self.embed.embedding_dim) + self.pos[:x.size(1)]

    def forward(self, b):
        cap, query = self.emb(b.cap), self.emb(b.query)
        for l in self.text_enc:
            cap, query = l(cap, [(None, b.cap_mask)]), l(query, [(None, b.query_mask)])
        video = self.ft_linear(b.fts) + self.pos[:b.fts.size(1)]
        for l in self.video_enc:
            video = l(video, [(None, None), (query, b.query_mask)])
        x = self.emb(b.trg)
        for l in self.dec:
            x = l(x, [(None, b.trg_mask), (query, b.query_mask), (cap, b.cap_mask), (video, None)])
        return self.generator(self.norm(x))


class LossCompute:
    """loss over the answer's tokens; steps if there is an optimizer"""

    def __init__(self, criterion, opt=None, sched=None):
        self.criterion, self.opt, self.sched = criterion, opt, sched

    def __call__(self, logits, b):
        loss = self.criterion(logits.reshape(-1, logits.size(-1)), b.trg_y.reshape(-1)) / b.ntokens
        if self.opt is not None:
            self.opt.zero_grad()
            loss.backward()
            self.opt.step()
            self.sched.step()
        return loss.item() * b.ntokens


def run_epoch(data, epoch, model, loss_compute, eval=False):
    total_loss, total_tokens, hits, it = 0.0, 0, 0, 0
    start = time.time()
    for b in data:
        logits = model(b)
        total_loss += loss_compute(logits, b)
        keep = b.trg_y != PAD
        hits += (logits.argmax(-1) == b.trg_y)[keep].sum().item()
        total_tokens += b.ntokens
        it += 1
        if not eval and it % 40 == 0:
            logging.info("Epoch: %d Step: %d Loss: %.4f Tokens per Sec: %.0f" % (
                epoch, it, total_loss / total_tokens, total_tokens / (time.time() - start)))
    return total_loss / total_tokens, hits / total_tokens


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--num-epochs", type=int, default=4)
    parser.add_argument("--batch-size", type=int, default=40)
    parser.add_argument("--num-train", type=int, default=3000)
    parser.add_argument("--num-valid", type=int, default=800)
    parser.add_argument("--ft-dim", type=int, default=48)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--warmup", type=int, default=50)
    args = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(4)
    rng = np.random.default_rng(4)
    vec = {w: rng.normal(0, 1, args.ft_dim) for w in ACTORS + ACTIONS + PLACES}
    train, valid = make_samples(args.num_train, rng, vec), make_samples(args.num_valid, rng, vec)

    model = MTN(args.ft_dim)
    criterion = nn.CrossEntropyLoss(ignore_index=PAD, reduction="sum")
    opt = torch.optim.Adam(model.parameters(), lr=args.lr, betas=(0.9, 0.98))
    total = args.num_epochs * (args.num_train // args.batch_size)
    sched = torch.optim.lr_scheduler.LambdaLR(
        opt, lambda s: min((s + 1) / args.warmup, max(0.02, 1 - (s - args.warmup) / (total - args.warmup))))

    for epoch in range(args.num_epochs):
        # start training
        model.train()
        train_loss, train_acc = run_epoch(make_batches(train, args.batch_size, rng), epoch, model,
                                          LossCompute(criterion, opt, sched))
        # test on validation data
        logging.info("-------validation--------")
        model.eval()
        valid_loss, valid_acc = run_epoch(make_batches(valid, 100), epoch, model, LossCompute(criterion), eval=True)
        logging.info("epoch: %d train loss: %.4f acc: %.4f validation loss: %.4f acc: %.4f" % (
            epoch + 1, train_loss, train_acc, valid_loss, valid_acc))


if __name__ == "__main__":
    main()

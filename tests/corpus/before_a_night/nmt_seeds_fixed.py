#!/usr/bin/env python3
"""Attention-based GRU translation model on a small made-up language pair.

The source language says times and amounts in words, the target language writes the
phrase in another order and with other words.
"""
import argparse
import math
import os
import random
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


class GlobalNames:
    SEED = 1234
    PAD, BOS, EOS, UNK = 0, 1, 2, 3


UNITS = "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen " \
        "seventeen eighteen nineteen".split()
TENS = ["", "", "twenty", "thirty", "forty", "fifty"]
DAYS = "monday tuesday wednesday thursday friday saturday sunday".split()
PEOPLE = "anna bert carla david emma frank".split()
THINGS = {"apples": "pomoj", "letters": "leteroj", "tickets": "biletoj", "books": "libroj", "coins": "moneroj"}
VERBS = {"buys": "acxetas", "sends": "sendas", "brings": "portas", "sells": "vendas", "counts": "kalkulas"}
TARGET_UNITS = "nul unu du tri kvar kvin ses sep ok nau dek".split()


def english_number(n):
    if n < 20:
        return [UNITS[n]]
    return [TENS[n // 10]] + ([UNITS[n % 10]] if n % 10 else [])


def target_number(n):
    tens, unit = divmod(n, 10)
    words = []
    if tens:
        words += ([TARGET_UNITS[tens]] if tens > 1 else []) + ["dek"]
    if unit or not words:
        words.append(TARGET_UNITS[unit])
    return words


def sentence_pair(rng):
    who, verb, thing, day = rng.choice(PEOPLE), rng.choice(list(VERBS)), rng.choice(list(THINGS)), rng.choice(DAYS)
    count, hour, minute = rng.randint(2, 59), rng.randint(0, 23), rng.randint(0, 59)
    src = [who, verb] + english_number(count) + [thing, "on", day, "at"] + english_number(hour)
    src += (["past"] + english_number(minute)) if minute else ["sharp"]
    tgt = ["je", day[:3] + "o", ] + (target_number(minute) + ["post"] if minute else []) + target_number(hour)
    tgt += [who] + target_number(count) + [THINGS[thing], VERBS[verb]]
    return src, tgt


def make_corpus(n, seed):
    rng = random.Random(seed)
    return [sentence_pair(rng) for _ in range(n)]


class Vocab:
    def __init__(self, sentences):
        self.words = ["<pad>", "<s>", "</s>", "<unk>"] + sorted({w for s in sentences for w in s})
        self.ids = {w: i for i, w in enumerate(self.words)}

    def encode(self, sentence):
        return [self.ids.get(w, GlobalNames.UNK) for w in sentence] + [GlobalNames.EOS]


class TextDataset:
    """Batches of padded sentence pairs; the order is new in every epoch if shuffle is set."""

    def __init__(self, pairs, src_vocab, tgt_vocab, batch_size, shuffle):
        self.data = [(src_vocab.encode(s), tgt_vocab.encode(t)) for s, t in pairs]
        self.batch_size = batch_size
        self.shuffle = shuffle

    @staticmethod
    def pad(rows):
        out = torch.full((len(rows), max(map(len, rows))), GlobalNames.PAD)
        for i, row in enumerate(rows):
            out[i, :len(row)] = torch.tensor(row)
        return out

    def __len__(self):
        return math.ceil(len(self.data) / self.batch_size)

    def __iter__(self):
        order = list(range(len(self.data)))
        if self.shuffle:
            random.shuffle(order)
        for i in range(0, len(order), self.batch_size):
            rows = [self.data[k] for k in order[i:i + self.batch_size]]
            yield self.pad([r[0] for r in rows]), self.pad([r[1] for r in rows])


class DL4MT(nn.Module):
    """Bidirectional GRU encoder, additive attention, GRU decoder."""

    def __init__(self, n_src, n_tgt, emb=96, hidden=160, dropout=0.2):
        super().__init__()
        self.src_emb = nn.Embedding(n_src, emb, padding_idx=GlobalNames.PAD)
        self.tgt_emb = nn.Embedding(n_tgt, emb, padding_idx=GlobalNames.PAD)
        self.encoder = nn.GRU(emb, hidden, batch_first=True, bidirectional=True)
        self.bridge = nn.Linear(2 * hidden, hidden)
        self.query, self.key = nn.Linear(hidden, hidden), nn.Linear(2 * hidden, hidden, bias=False)
        self.score = nn.Linear(hidden, 1, bias=False)
        self.cell = nn.GRUCell(emb + 2 * hidden, hidden)
        self.readout = nn.Linear(3 * hidden + emb, emb)
        self.out = nn.Linear(emb, n_tgt)
        self.dropout = nn.Dropout(dropout)

    def encode(self, src):
        mask = src != GlobalNames.PAD
        lengths = mask.sum(1)
        packed = nn.utils.rnn.pack_padded_sequence(self.dropout(self.src_emb(src)), lengths, batch_first=True,
                                                   enforce_sorted=False)
        memory, _ = nn.utils.rnn.pad_packed_sequence(self.encoder(packed)[0], batch_first=True)
        mean = memory.sum(1) / lengths.unsqueeze(1)
        return memory, self.key(memory), mask, torch.tanh(self.bridge(mean))

    def step(self, word_emb, state, memory, keys, mask):
        score = self.score(torch.tanh(self.query(state).unsqueeze(1) + keys)).squeeze(2)
        weight = F.softmax(score.masked_fill(~mask, -1e9), dim=1)
        context = torch.bmm(weight.unsqueeze(1), memory).squeeze(1)
        state = self.cell(torch.cat([word_emb, context], dim=1), state)
        readout = torch.tanh(self.readout(torch.cat([state, context, word_emb], dim=1)))
        return self.out(self.dropout(readout)), state

    def forward(self, src, tgt_in):
        memory, keys, mask, state = self.encode(src)
        emb = self.dropout(self.tgt_emb(tgt_in))
        logits = []
        for t in range(tgt_in.size(1)):
            logit, state = self.step(emb[:, t], state, memory, keys, mask)
            logits.append(logit)
        return torch.stack(logits, dim=1)

    @torch.no_grad()
    def translate(self, src, max_len=24):
        memory, keys, mask, state = self.encode(src)
        word = torch.full((src.size(0),), GlobalNames.BOS)
        result = []
        for _ in range(max_len):
            logit, state = self.step(self.tgt_emb(word), state, memory, keys, mask)
            word = logit.argmax(1)
            result.append(word)
        return torch.stack(result, dim=1)


def nmt_loss(model, src, tgt):
    bos = torch.full((tgt.size(0), 1), GlobalNames.BOS)
    logits = model(src, torch.cat([bos, tgt[:, :-1]], dim=1))
    return F.cross_entropy(logits.flatten(0, 1), tgt.flatten(), ignore_index=GlobalNames.PAD)


@torch.no_grad()
def validate(model, dataset):
    model.eval()
    loss, tokens, exact, n = 0.0, 0, 0, 0
    for src, tgt in dataset:
        k = (tgt != GlobalNames.PAD).sum().item()
        loss += nmt_loss(model, src, tgt).item() * k
        tokens += k
        hyp = model.translate(src)
        for h, t in zip(hyp.tolist(), tgt.tolist()):
            h = h[:h.index(GlobalNames.EOS)] if GlobalNames.EOS in h else h
            exact += h == t[:t.index(GlobalNames.EOS)]
            n += 1
    model.train()
    return loss / tokens, exact / n


def train(args):
    random.seed(GlobalNames.SEED)
    np.random.seed(GlobalNames.SEED)
    torch.manual_seed(GlobalNames.SEED)
    os.makedirs(args.saveto, exist_ok=True)

    train_pairs = make_corpus(args.train_size, GlobalNames.SEED)
    seen = {" ".join(s) for s, _ in train_pairs}
    valid_pairs = [p for p in make_corpus(args.valid_size, GlobalNames.SEED + 1) if " ".join(p[0]) not in seen]
    src_vocab, tgt_vocab = Vocab([s for s, _ in train_pairs]), Vocab([t for _, t in train_pairs])
    train_data = TextDataset(train_pairs, src_vocab, tgt_vocab, args.batch_size, shuffle=True)
    valid_data = TextDataset(valid_pairs, src_vocab, tgt_vocab, 100, shuffle=False)

    model = DL4MT(len(src_vocab.words), len(tgt_vocab.words))
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lrate)
    print(f"vocabularies {len(src_vocab.words)} / {len(tgt_vocab.words)}, "
          f"parameters {sum(p.numel() for p in model.parameters())}")

    uidx, best, start = 0, float("inf"), time.time()
    for eidx in range(args.max_epochs):
        model.train()
        for src, tgt in train_data:
            optimizer.zero_grad()
            loss = nmt_loss(model, src, tgt)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            uidx += 1
            if uidx % args.disp_freq == 0:
                print(f"epoch {eidx} update {uidx} loss {loss.item():.6f} ({time.time() - start:.1f}s)", flush=True)
        loss, exact = validate(model, valid_data)
        print(f"epoch {eidx} dev loss {loss:.5f} exact {exact:.3f}", flush=True)
        if loss < best:
            best = loss
            torch.save(model.state_dict(), os.path.join(args.saveto, "best.params"))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--train_size", type=int, default=16000)
    parser.add_argument("--valid_size", type=int, default=500)
    parser.add_argument("--batch_size", type=int, default=48)
    parser.add_argument("--max_epochs", type=int, default=40)
    parser.add_argument("--lrate", type=float, default=1e-3)
    parser.add_argument("--disp_freq", type=int, default=10)
    parser.add_argument("--saveto", default="runs/njunmt")
    train(parser.parse_args())

"""BiGRU tagger; the vocabulary is generated from the training data on every start."""
import collections
import os
import random

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

SEED = 21
EPOCHS = 300
BATCH = 40
LR = 3e-3
MAX_VOCAB = 420
OUT = "tagger"
TAGS = 7
PAD, UNK = "<pad>", "<unk>"


class Vocabulary:
    def __init__(self, words):
        self.index_to_word = [PAD, UNK] + list(words)
        self.word_to_index = {w: i for i, w in enumerate(self.index_to_word)}

    def __len__(self):
        return len(self.index_to_word)

    def encode(self, sentence):
        return [self.word_to_index.get(w, 1) for w in sentence]

    def decode(self, ids):
        return [self.index_to_word[i] for i in ids if i != 0]

    def save(self, path):
        with open(path, "w") as f:
            f.write("\n".join(self.index_to_word) + "\n")

    @staticmethod
    def from_dataset(sentences, max_size):
        counts = collections.Counter(w for s in sentences for w in s)
        words = set(counts)
        ranked = sorted(words, key=lambda w: -counts[w])
        return Vocabulary(ranked[:max_size])


def pseudo_words(n, rng):
    syllables = [c + v for c in "bdfgklmnprst" for v in "aeiou"]
    words = set()
    while len(words) < n:
        words.add("".join(rng.choice(syllables) for _ in range(rng.randint(2, 3))))
    return sorted(words)


def make_corpus(n, lexicon, rng):
    sentences, tags = [], []
    for _ in range(n):
        length = rng.randint(6, 14)
        tag, sent, seq = rng.randrange(TAGS), [], []
        for _ in range(length):
            tag = (tag + rng.choice([1, 1, 1, 2])) % TAGS
            sent.append(rng.choice(lexicon[tag]))
            seq.append(tag)
        sentences.append(sent)
        tags.append(seq)
    return sentences, tags


def batch_of(sentences, tags, idx, vocab):
    width = max(len(sentences[i]) for i in idx)
    x = torch.zeros(len(idx), width, dtype=torch.long)
    y = torch.full((len(idx), width), -100)
    for row, i in enumerate(idx):
        x[row, :len(sentences[i])] = torch.tensor(vocab.encode(sentences[i]))
        y[row, :len(tags[i])] = torch.tensor(tags[i])
    return x, y


class Tagger(nn.Module):
    def __init__(self, vocab_size, dim=64, hidden=96):
        super().__init__()
        self.emb = nn.Embedding(vocab_size, dim, padding_idx=0)
        self.rnn = nn.GRU(dim, hidden, batch_first=True, bidirectional=True)
        self.out = nn.Linear(2 * hidden, TAGS)

    def forward(self, x):
        lengths = (x != 0).sum(1)
        packed = nn.utils.rnn.pack_padded_sequence(self.emb(x), lengths, batch_first=True, enforce_sorted=False)
        h, _ = nn.utils.rnn.pad_packed_sequence(self.rnn(packed)[0], batch_first=True, total_length=x.size(1))
        return self.out(h)


def loss_fn(logits, y):
    return F.cross_entropy(logits.flatten(0, 1), y.flatten(), ignore_index=-100)


def main():
    random.seed(SEED)
    np.random.seed(SEED)
    torch.manual_seed(SEED)
    os.makedirs(OUT, exist_ok=True)
    rng = random.Random(SEED)
    words = pseudo_words(TAGS * 62, rng)
    lexicon = [words[t::TAGS] for t in range(TAGS)]
    train_s, train_t = make_corpus(1000, lexicon, rng)
    val_s, val_t = make_corpus(200, lexicon, rng)

    vocab = Vocabulary.from_dataset(train_s, MAX_VOCAB)
    vocab.save(os.path.join(OUT, "vocab.tsv"))
    model = Tagger(len(vocab))
    opt = torch.optim.Adam(model.parameters(), lr=LR)
    sched = torch.optim.lr_scheduler.ExponentialLR(opt, gamma=0.985)
    ckpt, first = os.path.join(OUT, "model.pt"), 0
    if os.path.exists(ckpt):
        state = torch.load(ckpt)
        model.load_state_dict(state["model"])
        opt.load_state_dict(state["opt"])
        sched.load_state_dict(state["sched"])
        first = state["epoch"] + 1
        print("resuming from epoch", first)

    for epoch in range(first, EPOCHS):
        model.train()
        order = torch.randperm(len(train_s), generator=torch.Generator().manual_seed(SEED + epoch))
        for it, idx in enumerate(order.split(BATCH)):
            x, y = batch_of(train_s, train_t, idx.tolist(), vocab)
            loss = loss_fn(model(x), y)
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 5.0)
            opt.step()
            if it % 6 == 0:
                print(f"epoch {epoch} it {it} loss {loss.item():.4f}", flush=True)
        sched.step()
        model.eval()
        with torch.no_grad():
            x, y = batch_of(val_s, val_t, list(range(len(val_s))), vocab)
            logits = model(x)
            keep = y != -100
            acc = (logits.argmax(-1)[keep] == y[keep]).float().mean().item()
        print(f"epoch {epoch} val loss {loss_fn(logits, y).item():.4f} acc {acc:.4f}", flush=True)
        torch.save({"model": model.state_dict(), "opt": opt.state_dict(), "sched": sched.state_dict(),
                    "epoch": epoch}, ckpt)


if __name__ == "__main__":
    main()

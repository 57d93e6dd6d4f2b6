"""
Discriminator model for gene-gene relation sentences.

Every sentence mentions two tagged genes. The LSTM decides whether the sentence
says that the genes interact.
"""
import argparse
import random
import time
from collections import Counter

import numpy as np
import torch
import torch.nn as nn
from torch.nn.utils.rnn import pack_padded_sequence

POSITIVE = [
    "over-expression of {a} activates {b} in {c} cells",
    "{a} binds {b} and {v} its expression in {c}",
    "we show that {a} directly interacts with {b} during {p}",
    "knock-down of {a} {v} the level of {b} in {c} tissue",
    "{a} phosphorylates {b} , which is required for {p}",
    "co-immunoprecipitation confirmed a complex of {a} and {b} in {c}",
    "loss of {a} {v} {b} transcription through its promoter",
]
NEGATIVE = [
    "{a} and {b} were measured in {c} patients with {d}",
    "no association was found between {a} and {b} in {d}",
    "{a} maps to the same chromosome as {b} in {c}",
    "the expression of {a} was independent of {b} during {p}",
    "primers for {a} and {b} were used in {c} samples",
    "{a} does not bind {b} in {c} cells",
    "mutations of {a} or {b} were screened in {d} families",
]
FILL = {
    "c": ["liver", "neuronal", "epithelial", "breast", "lung", "kidney", "immune", "muscle", "embryonic", "tumour"],
    "p": ["apoptosis", "development", "inflammation", "differentiation", "mitosis", "autophagy", "angiogenesis"],
    "d": ["diabetes", "leukemia", "asthma", "glioma", "melanoma", "arthritis", "epilepsy", "obesity"],
    "v": ["increases", "decreases", "represses", "enhances", "reduces", "modulates"],
}
LEAD = ["in this study ,", "interestingly ,", "furthermore ,", "here", "recent data suggest that", "as expected ,", ""]


def gene_name(rng):
    return "".join(rng.choice(list("ABCDEFGHKLMNPRSTX"), size=3)) + str(rng.integers(1, 30))


def make_candidates(n, seed):
    rng = np.random.default_rng(seed)
    sentences, labels = [], []

    def clause(positive, tagged):
        template = str(rng.choice(POSITIVE if positive else NEGATIVE))
        slots = {k: str(rng.choice(v)) for k, v in FILL.items()}
        a, b = gene_name(rng), gene_name(rng)
        if tagged:
            a, b = "~~[[1 " + a + " 1]]~~", "~~[[2 " + b + " 2]]~~"
        return template.format(a=a, b=b, **slots)

    for _ in range(n):
        label = int(rng.random() < 0.5)
        clauses = [clause(label, True)]
        if rng.random() < 0.7:
            # other genes in the same sentence tell nothing about the tagged pair
            clauses.insert(int(rng.integers(2)), clause(rng.random() < 0.5, False))
        joint = " , " + str(rng.choice(["whereas", "and", "while", "but"])) + " "
        sentence = str(rng.choice(LEAD)) + " " + joint.join(clauses) + " ."
        sentences.append(sentence.lower().split())
        # labels come from a generative model and are not always right
        labels.append(label if rng.random() > 0.05 else 1 - label)
    return sentences, labels


def build_word_dict(sentences, min_count):
    counts = Counter(w for s in sentences for w in s)
    words = [w for w, c in sorted(counts.items(), key=lambda x: (-x[1], x[0])) if c >= min_count]
    return {word: index for index, word in enumerate(words)}


def embed_sentence(sentence, word_dict, max_len):
    # Any words missing from our vocab receive an index of 1, 0 is the null character.
    ids = [word_dict.get(word, 1) for word in sentence][:max_len]
    length = len(ids)
    return ids + [0] * (max_len - length), length


def to_tensors(sentences, labels, word_dict, max_len):
    rows = [embed_sentence(s, word_dict, max_len) for s in sentences]
    return (torch.tensor([r[0] for r in rows]), torch.tensor([r[1] for r in rows]), torch.tensor(labels).float())


class RelationLSTM(nn.Module):
    def __init__(self, n_words, dim=100, hidden=150):
        super().__init__()
        # two rows more: null character and unknown token
        self.embed = nn.Embedding(n_words + 2, dim, padding_idx=0)
        self.lstm = nn.LSTM(dim, hidden, batch_first=True, bidirectional=True)
        self.dropout = nn.Dropout(0.25)
        self.out = nn.Linear(2 * hidden, 1)

    def forward(self, ids, lengths):
        x = pack_padded_sequence(self.embed(ids), lengths, batch_first=True, enforce_sorted=False)
        _, (h, _) = self.lstm(x)
        return self.out(self.dropout(torch.cat([h[0], h[1]], dim=1))).squeeze(1)


@torch.no_grad()
def score(model, data, batch_size=256):
    model.eval()
    ids, lengths, labels = data
    logits = torch.cat([model(ids[i:i + batch_size], lengths[i:i + batch_size]) for i in range(0, len(ids), batch_size)])
    loss = nn.functional.binary_cross_entropy_with_logits(logits, labels).item()
    acc = ((logits > 0) == (labels > 0.5)).float().mean().item()
    return loss, acc


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=60)
    ap.add_argument("--batch_size", type=int, default=64)
    ap.add_argument("--lr", type=float, default=1e-3)
    ap.add_argument("--max_len", type=int, default=44)
    ap.add_argument("--min_count", type=int, default=20)
    ap.add_argument("--n_train", type=int, default=40000)
    ap.add_argument("--seed", type=int, default=100)
    args = ap.parse_args()
    random.seed(args.seed)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)

    train_sent, train_lab = make_candidates(args.n_train, 1)
    tune_sent, tune_lab = make_candidates(2000, 2)
    word_dict = build_word_dict(train_sent, args.min_count)
    print(f"{len(word_dict)} words, most frequent: {list(word_dict)[:8]}")
    train = to_tensors(train_sent, train_lab, word_dict, args.max_len)
    tune = to_tensors(tune_sent, tune_lab, word_dict, args.max_len)

    model = RelationLSTM(len(word_dict))
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
    criterion = nn.BCEWithLogitsLoss()
    best = float("inf")
    for epoch in range(1, args.epochs + 1):
        model.train()
        order = torch.randperm(len(train[0]))
        t0, running = time.time(), 0.0
        for it, idx in enumerate(order.split(args.batch_size), 1):
            ids, lengths, labels = (t[idx] for t in train)
            loss = criterion(model(ids, lengths), labels)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 5.0)
            optimizer.step()
            running += loss.item()
            if it % 25 == 0:
                print(f"epoch {epoch} step {it} loss {running / 25:.4f} {1000 * (time.time() - t0) / it:.0f} ms", flush=True)
                running = 0.0
        loss, acc = score(model, tune)
        print(f"epoch {epoch}: tune loss {loss:.4f} accuracy {acc:.4f}", flush=True)
        if loss < best:
            best = loss
            torch.save({"model": model.state_dict(), "word_dict": word_dict}, "disc_model.pt")


if __name__ == "__main__":
    main()

"""Hierarchical multi-label text classification with attention pooling."""
import json
import os
import random
from collections import Counter

import numpy as np
import torch
import torch.nn as nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, Dataset

SEED = 12
PARENTS, CHILDREN = 4, 3
TRAIN_DOCS, TEST_DOCS = 1500, 300
BATCH_SIZE, EPOCHS, LR = 50, 300, 2e-3
OUT = "hmtc_run"


def make_documents(count, seed):
    """Documents about one or two subtopics; each topic and subtopic has its own words."""
    rng = np.random.default_rng(seed)
    docs = []
    for _ in range(count):
        parent = rng.integers(PARENTS)
        children = rng.choice(CHILDREN, size=rng.integers(1, 3), replace=False)
        words = []
        for _ in range(rng.integers(14, 30)):
            r = rng.random()
            if r < 0.35:
                words.append(f"common{int(rng.zipf(1.6)) % 60}")
            elif r < 0.6:
                words.append(f"topic{parent}x{rng.integers(12)}")
            else:
                words.append(f"sub{parent}{rng.choice(children)}x{rng.integers(12)}")
        labels = np.zeros(PARENTS + PARENTS * CHILDREN, dtype=np.float32)
        labels[parent] = 1
        labels[PARENTS + parent * CHILDREN + children] = 1
        docs.append((" ".join(words), labels))
    return docs


class WordTokenizer:
    pad_token, unk_token = "<pad>", "<unk>"
    padding_side = "right"

    def __init__(self, texts=None, vocab=None):
        if vocab is None:
            counts = Counter(w for t in texts for w in t.split())
            ordered = sorted(counts, key=lambda w: (-counts[w], w))
            vocab = {w: i for i, w in enumerate([self.pad_token, self.unk_token] + ordered)}
        self.vocab_to_int = vocab
        self.int_to_vocab = {i: w for w, i in vocab.items()}

    def __len__(self):
        return len(self.vocab_to_int)

    def encode(self, text):
        return [self.vocab_to_int.get(w, self.vocab_to_int[self.unk_token]) for w in text.split()]

    def decode(self, ids):
        return " ".join(self.int_to_vocab[int(i)] for i in ids)

    def save(self, path):
        with open(path, "w") as f:
            json.dump(self.vocab_to_int, f)


class TextDataset(Dataset):
    def __init__(self, docs, tokenizer=None):
        self.tokenizer = tokenizer or WordTokenizer([text for text, _ in docs])
        self.samples = [(torch.tensor(self.tokenizer.encode(text)), torch.from_numpy(y)) for text, y in docs]

    def __len__(self):
        return len(self.samples)

    def __getitem__(self, i):
        return self.samples[i]


def collate(batch):
    ids, labels = zip(*batch)
    return pad_sequence(ids, batch_first=True, padding_value=0), torch.stack(labels)


class HierarchicalClassifier(nn.Module):
    def __init__(self, vocab_size, dim=96):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, dim, padding_idx=0)
        self.score = nn.Sequential(nn.Linear(dim, dim), nn.Tanh(), nn.Linear(dim, 1))
        self.parent = nn.Sequential(nn.Linear(dim, dim), nn.ReLU(), nn.Linear(dim, PARENTS))
        self.child = nn.Sequential(nn.Linear(dim + PARENTS, dim), nn.ReLU(), nn.Linear(dim, PARENTS * CHILDREN))

    def forward(self, ids):
        x = self.embedding(ids)
        weights = self.score(x).squeeze(-1).masked_fill(ids == 0, float("-inf")).softmax(dim=1)
        pooled = (weights.unsqueeze(-1) * x).sum(dim=1)
        parent = self.parent(pooled)
        child = self.child(torch.cat([pooled, parent], dim=1))
        return torch.cat([parent, child], dim=1)


@torch.no_grad()
def test(model, loader, criterion):
    model.eval()
    loss, tp, fp, fn, n = 0.0, 0.0, 0.0, 0.0, 0
    for ids, labels in loader:
        logits = model(ids)
        loss += criterion(logits, labels).item() * len(ids)
        pred = (logits > 0).float()
        tp += (pred * labels).sum().item()
        fp += (pred * (1 - labels)).sum().item()
        fn += ((1 - pred) * labels).sum().item()
        n += len(ids)
    return loss / n, 2 * tp / max(2 * tp + fp + fn, 1)


def main():
    random.seed(SEED)
    np.random.seed(SEED)
    torch.manual_seed(SEED)
    os.makedirs(OUT, exist_ok=True)

    train_dataset = TextDataset(make_documents(TRAIN_DOCS, SEED))
    test_dataset = TextDataset(make_documents(TEST_DOCS, SEED + 1), train_dataset.tokenizer)
    train_dataset.tokenizer.save(os.path.join(OUT, "vocab.json"))
    generator = torch.Generator().manual_seed(SEED)
    train_loader = DataLoader(train_dataset, BATCH_SIZE, shuffle=True, generator=generator, collate_fn=collate)
    test_loader = DataLoader(test_dataset, BATCH_SIZE, collate_fn=collate)

    model = HierarchicalClassifier(len(train_dataset.tokenizer))
    criterion = nn.BCEWithLogitsLoss()
    optimizer = torch.optim.Adam(model.parameters(), lr=LR)
    path, first = os.path.join(OUT, "model.pt"), 0
    if os.path.exists(path):
        saved = torch.load(path)
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        generator.set_state(saved["generator"])
        torch.set_rng_state(saved["rng"])
        first = saved["epoch"] + 1

    for epoch in range(first, EPOCHS):
        model.train()
        total = 0.0
        for ids, labels in train_loader:
            optimizer.zero_grad()
            loss = criterion(model(ids), labels)
            loss.backward()
            optimizer.step()
            total += loss.item() * len(ids)
        test_loss, f1 = test(model, test_loader, criterion)
        print(f"epoch {epoch + 1}: train loss {total / len(train_dataset):.4f}, test loss {test_loss:.4f}, "
              f"micro-F1 {f1:.3f}", flush=True)
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch,
                    "generator": generator.get_state(), "rng": torch.get_rng_state()}, path)


if __name__ == "__main__":
    main()

import os
import tempfile

import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, IterableDataset

VOCAB, NCTX, BATCH = 24, 24, 16


def write_shards(folder, name, shards, rows, seed):
    rng = np.random.RandomState(seed)
    table = np.random.RandomState(0).dirichlet(np.full(VOCAB, 0.08), VOCAB)
    cum = table.cumsum(1)
    for s in range(shards):
        x = np.zeros((rows, NCTX + 1), np.int64)
        x[:, 0] = rng.randint(0, VOCAB, rows)
        for t in range(NCTX):
            u = rng.rand(rows, 1)
            x[:, t + 1] = np.minimum((cum[x[:, t]] < u).sum(1), VOCAB - 1)
        np.save(os.path.join(folder, f"{name}-{s:03d}.npy"), x)


class MultiFileDataset(IterableDataset):
    def __init__(self, folder, name):
        self.files = sorted(os.path.join(folder, f) for f in os.listdir(folder) if f.startswith(name))
        self.length = sum(len(np.load(f, mmap_mode="r")) for f in self.files)

    def __len__(self):
        return self.length

    def __iter__(self):
        for f in self.files:
            for row in np.load(f):
                yield torch.from_numpy(row)


class RNNLanguageModel(nn.Module):
    def __init__(self, dim=48):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, dim)
        self.rnn = nn.LSTM(dim, dim, batch_first=True)
        self.proj = nn.Linear(dim, VOCAB)

    def forward(self, x):
        return self.proj(self.rnn(self.embed(x))[0])


def lm_loss(model, rows):
    logits = model(rows[:, :-1])
    return nn.functional.cross_entropy(logits.reshape(-1, VOCAB), rows[:, 1:].reshape(-1))


def main(folder):
    torch.manual_seed(6)
    write_shards(folder, "train", shards=24, rows=160, seed=1)
    write_shards(folder, "valid", shards=2, rows=160, seed=2)
    train_loader = DataLoader(MultiFileDataset(folder, "train"), batch_size=BATCH)
    valid_loader = DataLoader(MultiFileDataset(folder, "valid"), batch_size=80)
    model = RNNLanguageModel()
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3, weight_decay=1e-3)
    epochs = 6
    steps_per_epoch = len(train_loader) // epochs
    print(f"batches in the training set {len(train_loader)}, steps per epoch {steps_per_epoch}")
    train_itr = iter(train_loader)
    for epoch in range(epochs):
        model.train()
        total = 0.0
        for _ in range(steps_per_epoch):
            rows = next(train_itr)
            optimizer.zero_grad()
            loss = lm_loss(model, rows)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 5.0)
            optimizer.step()
            total += loss.item()
        model.eval()
        with torch.no_grad():
            valid = np.mean([lm_loss(model, rows).item() for rows in valid_loader])
        print(f"epoch {epoch} train {total / steps_per_epoch:.4f} valid {valid:.4f} ppl {np.exp(valid):.2f}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as d:
        main(d)

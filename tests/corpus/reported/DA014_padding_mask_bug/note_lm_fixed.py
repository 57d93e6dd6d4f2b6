import random

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

torch.set_num_threads(1)
PAD, BOS, NOTES = 0, 1, 14
VOCAB = NOTES + 2


class Melodies(Dataset):
    def __init__(self, n, seed, max_len=28):
        rng = random.Random(seed)
        self.items, self.max_len = [], max_len
        for _ in range(n):
            length = rng.randint(6, 16)
            start, step = rng.randrange(NOTES), rng.choice([1, 2, 3, 5])
            self.items.append([BOS] + [2 + (start + step * i) % NOTES for i in range(length)])

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        seq = self.items[i]
        ids = torch.full((self.max_len,), PAD)
        ids[: len(seq)] = torch.tensor(seq)
        return ids[:-1], ids[1:]


class NoteLM(nn.Module):
    def __init__(self, dim=48):
        super().__init__()
        self.emb = nn.Embedding(VOCAB, dim, padding_idx=PAD)
        self.rnn = nn.GRU(dim, 64, batch_first=True)
        self.norm = nn.LayerNorm(64)
        self.head = nn.Linear(64, VOCAB)

    def forward(self, src):
        return self.head(self.norm(self.rnn(self.emb(src))[0]))


class PretrainModule:
    def __init__(self, model, lr=3e-3):
        self.model = model
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=lr, weight_decay=0.01)
        self.loss_fn = nn.CrossEntropyLoss(ignore_index=PAD)

    def step(self, src, tgt):
        logits = self.model(src).transpose(1, 2)
        return self.loss_fn(logits, tgt)

    def fit(self, train_loader, val_loader, epochs):
        for epoch in range(epochs):
            self.model.train()
            total = 0.0
            for src, tgt in train_loader:
                loss = self.step(src, tgt)
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
                total += loss.item()
            self.model.eval()
            with torch.no_grad():
                val = sum(self.step(s, t).item() for s, t in val_loader) / len(val_loader)
            print(f"epoch {epoch} loss {total / len(train_loader):.4f} val_loss {val:.4f}")


if __name__ == "__main__":
    torch.manual_seed(5)
    train_loader = DataLoader(Melodies(1280, 1), batch_size=32, shuffle=True)
    val_loader = DataLoader(Melodies(256, 2), batch_size=64)
    PretrainModule(NoteLM()).fit(train_loader, val_loader, epochs=5)

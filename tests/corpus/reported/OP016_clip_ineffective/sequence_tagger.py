"""BiLSTM sequence tagger for entity spans (BIO scheme)."""
import random

import numpy as np
import torch
import torch.nn as nn
from torch.nn.utils import clip_grad_norm_
from torch.utils.data import DataLoader, Dataset

PAD, VOCAB, TAGS = 0, 120, 5  # O, B-PER, I-PER, B-LOC, I-LOC


def set_seed(seed):
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)


def make_sentence(rng):
    """Titles (1-9) open a person, prepositions (10-19) open a location."""
    tokens, tags = [], []
    while len(tokens) < rng.integers(10, 21):
        kind = rng.integers(0, 3)
        if kind == 0:
            tokens.append(int(rng.integers(20, VOCAB)))
            tags.append(0)
        else:
            low, high, first = (1, 10, 1) if kind == 1 else (10, 20, 3)
            tokens.append(int(rng.integers(low, high)))
            tags.append(0)
            for i in range(rng.integers(1, 3)):
                tokens.append(int(rng.integers(20, 70)))
                tags.append(first if i == 0 else first + 1)
            tokens.append(int(rng.integers(70, VOCAB)))
            tags.append(0)
    return tokens, tags


class NerDataset(Dataset):
    def __init__(self, size, seed):
        rng = np.random.default_rng(seed)
        self.items = [make_sentence(rng) for _ in range(size)]

    def __len__(self):
        return len(self.items)

    def __getitem__(self, index):
        return self.items[index]


def collate(batch):
    width = max(len(tokens) for tokens, _ in batch)
    ids = torch.full((len(batch), width), PAD)
    labels = torch.full((len(batch), width), -100)
    for row, (tokens, tags) in enumerate(batch):
        ids[row, :len(tokens)] = torch.tensor(tokens)
        labels[row, :len(tags)] = torch.tensor(tags)
    return ids, labels


class BiLstmTagger(nn.Module):
    def __init__(self, dim=32, hidden=48):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, dim, padding_idx=PAD)
        self.lstm = nn.LSTM(dim, hidden, batch_first=True, bidirectional=True)
        self.dropout = nn.Dropout(0.1)
        self.linear = nn.Linear(2 * hidden, TAGS)

    def forward(self, ids):
        lengths = (ids != PAD).sum(1)
        packed = nn.utils.rnn.pack_padded_sequence(
            self.embed(ids), lengths, batch_first=True, enforce_sorted=False)
        out, _ = nn.utils.rnn.pad_packed_sequence(self.lstm(packed)[0], batch_first=True)
        return self.linear(self.dropout(out))


class NerTrainer:
    def __init__(self, model, train_loader, dev_loader, lr=0.5, max_norm=0.5):
        self.model = model
        self.train_loader = train_loader
        self.dev_loader = dev_loader
        self.max_norm = max_norm
        self.loss_fn = nn.CrossEntropyLoss(ignore_index=-100)
        self.optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.8)

    def train(self, epochs):
        for epoch in range(epochs):
            self.model.train()
            total = 0.0
            for ids, labels in self.train_loader:
                logits = self.model(ids)
                loss = self.loss_fn(logits.view(-1, TAGS), labels.view(-1))
                self.optimizer.zero_grad()
                clip_grad_norm_(self.model.parameters(), max_norm=self.max_norm)
                loss.backward()
                self.optimizer.step()
                total += loss.item()
            dev_loss, dev_acc = self.evaluate()
            print(f"epoch {epoch + 1} train {total / len(self.train_loader):.4f} "
                  f"dev {dev_loss:.4f} acc {dev_acc:.3f}")

    @torch.no_grad()
    def evaluate(self):
        self.model.eval()
        total, right, count = 0.0, 0, 0
        for ids, labels in self.dev_loader:
            logits = self.model(ids)
            total += self.loss_fn(logits.view(-1, TAGS), labels.view(-1)).item()
            mask = labels != -100
            right += (logits.argmax(-1)[mask] == labels[mask]).sum().item()
            count += mask.sum().item()
        return total / len(self.dev_loader), right / count


if __name__ == "__main__":
    set_seed(2022)
    train_loader = DataLoader(NerDataset(960, 1), batch_size=32, shuffle=True, collate_fn=collate)
    dev_loader = DataLoader(NerDataset(192, 2), batch_size=64, collate_fn=collate)
    NerTrainer(BiLstmTagger(), train_loader, dev_loader).train(epochs=6)

import csv
import io
import random

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset

GOOD = "great love nice happy wonderful excellent superb enjoy".split()
BAD = "awful hate poor sad terrible horrible boring waste".split()
FILL = "the film was a bit long and we saw it with friends on monday evening at home".split()


def make_csv(n, seed):
    rng = random.Random(seed)
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(["text", "value"])
    for _ in range(n):
        value = rng.choice([-1, 0, 1])
        words = [rng.choice(FILL) for _ in range(8)]
        pool = {-1: BAD, 0: FILL, 1: GOOD}[value]
        for k in rng.sample(range(8), 2):
            words[k] = rng.choice(pool)
        writer.writerow([" ".join(words), value])
    out.seek(0)
    return out


VOCAB = {w: i + 1 for i, w in enumerate(sorted(set(GOOD + BAD + FILL)))}


class TextClassificationData(Dataset):
    def __init__(self, handle):
        self.rows = []
        for row in csv.DictReader(handle):
            ids = [VOCAB[w] for w in row["text"].split()]
            label = int(row["value"]) + 1
            self.rows.append((torch.tensor(ids), torch.tensor(label)))

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        return self.rows[i]


class EncoderClassifier(nn.Module):
    def __init__(self, num_labels, dim=32):
        super().__init__()
        self.embed = nn.Embedding(len(VOCAB) + 1, dim)
        self.position = nn.Parameter(0.02 * torch.randn(1, 8, dim))
        self.encoder = nn.TransformerEncoderLayer(dim, 4, 64, dropout=0.0, batch_first=True)
        self.classifier = nn.Linear(dim, num_labels)

    def forward(self, ids):
        h = self.encoder(self.embed(ids) + self.position)
        return self.classifier(h.mean(1))


class HappyTextClassification:
    def __init__(self, num_labels):
        torch.manual_seed(42)
        self.model = EncoderClassifier(num_labels)
        self.criterion = nn.CrossEntropyLoss()

    def train(self, dataset, eval_set, epochs=6, lr=1e-3):
        optimizer = torch.optim.AdamW(self.model.parameters(), lr=lr)
        loader = DataLoader(dataset, batch_size=32, shuffle=True)
        for epoch in range(epochs):
            self.model.train()
            total = 0.0
            for ids, labels in loader:
                optimizer.zero_grad()
                loss = self.criterion(self.model(ids), labels)
                loss.backward()
                optimizer.step()
                total += loss.item()
            print(f"epoch {epoch}: loss {total / len(loader):.4f} eval loss {self.eval(eval_set):.4f}")

    @torch.no_grad()
    def eval(self, dataset):
        self.model.eval()
        losses = [self.criterion(self.model(ids), y).item() for ids, y in DataLoader(dataset, batch_size=100)]
        return sum(losses) / len(losses)


if __name__ == "__main__":
    happy_tc = HappyTextClassification(num_labels=3)
    happy_tc.train(TextClassificationData(make_csv(1600, 1)), TextClassificationData(make_csv(400, 2)))

import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)
TOPICS = 6
VOCAB = 60


def make_dialogues(n, seed):
    g = torch.Generator().manual_seed(seed)
    topic = torch.randint(0, TOPICS, (n,), generator=g)
    words = torch.randint(0, VOCAB, (n, 12), generator=g)
    topical = topic[:, None] * 10 + torch.randint(0, 10, (n, 12), generator=g)
    keep = torch.rand(n, 12, generator=g) < 0.35
    text = torch.where(keep, topical, words)
    protos = torch.randn(TOPICS, 24, generator=torch.Generator().manual_seed(99))
    image = protos[topic] + 0.6 * torch.randn(n, 24, generator=g)
    return text, image, topic


class ContextEncoder(nn.Module):
    def __init__(self, dim=48, dropout=0.3):
        super().__init__()
        self.emb = nn.Embedding(VOCAB, dim)
        self.drop = nn.Dropout(dropout)
        self.rnn = nn.GRU(dim, dim, batch_first=True)

    def forward(self, text):
        out, _ = self.rnn(self.drop(self.emb(text)))
        return self.drop(out.mean(1))


class MultimodalModel(nn.Module):
    def __init__(self, dim=48, dropout=0.3):
        super().__init__()
        self.context = ContextEncoder(dim, dropout)
        self.image = nn.Sequential(nn.Linear(24, dim), nn.ReLU(), nn.Dropout(dropout))
        self.out = nn.Linear(2 * dim, TOPICS)

    def forward(self, text, image):
        return self.out(torch.cat([self.context(text), self.image(image)], -1))


def evaluate(model, loader):
    model.eval()
    loss, hits, n = 0.0, 0, 0
    with torch.no_grad():
        for text, image, y in loader:
            logits = model(text, image)
            loss += F.cross_entropy(logits, y, reduction="sum").item()
            hits += (logits.argmax(-1) == y).sum().item()
            n += y.numel()
    return loss / n, hits / n


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=4)
    ap.add_argument("--batch_size", type=int, default=32)
    ap.add_argument("--lr", type=float, default=1e-3)
    ap.add_argument("--seed", type=int, default=3)
    args = ap.parse_args()
    torch.manual_seed(args.seed)
    train_loader = DataLoader(TensorDataset(*make_dialogues(1920, 1)), batch_size=args.batch_size, shuffle=True)
    valid_loader = DataLoader(TensorDataset(*make_dialogues(512, 2)), batch_size=128)
    model = MultimodalModel()
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
    model.train()
    for epoch in range(args.epochs):
        running = 0.0
        for text, image, y in train_loader:
            optimizer.zero_grad()
            loss = F.cross_entropy(model(text, image), y)
            loss.backward()
            optimizer.step()
            running += loss.item()
        val_loss, acc = evaluate(model, valid_loader)
        print(f"epoch {epoch} train {running / len(train_loader):.4f} valid {val_loss:.4f} acc {acc:.3f}")


if __name__ == "__main__":
    main()

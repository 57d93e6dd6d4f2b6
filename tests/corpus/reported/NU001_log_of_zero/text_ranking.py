import typing

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset

torch.set_num_threads(1)


class RankCrossEntropyLoss(nn.Module):
    """Cross entropy over a relevant document followed by its negatives."""

    def __init__(self, num_neg: int = 4):
        super().__init__()
        self.num_neg = num_neg

    def forward(self, y_pred: torch.Tensor, y_true: torch.Tensor):
        logits = y_pred[::(self.num_neg + 1), :]
        labels = y_true[::(self.num_neg + 1), :]
        for neg_idx in range(self.num_neg):
            neg_pred = y_pred[(neg_idx + 1)::(self.num_neg + 1), :]
            neg_true = y_true[(neg_idx + 1)::(self.num_neg + 1), :]
            logits = torch.cat((logits, neg_pred), dim=-1)
            labels = torch.cat((labels, neg_true), dim=-1)
        return -torch.mean(
            torch.sum(labels * torch.log(F.softmax(logits, dim=-1)), dim=-1)
        )


class PairDataset(Dataset):
    """One query with a relevant document and several others, duplicated pairwise."""

    def __init__(self, size: int, num_neg: int, seed: int, topics: int = 12):
        rng = np.random.RandomState(seed)
        self.samples: typing.List[tuple] = []
        for _ in range(size):
            topic = rng.randint(topics)
            others = rng.choice([t for t in range(topics) if t != topic], num_neg, replace=False)
            query = np.repeat(self._text(rng, topic, 8)[None], num_neg + 1, axis=0)
            docs = np.stack([self._text(rng, t, 20) for t in [topic, *others]])
            label = np.zeros((num_neg + 1, 1), dtype=np.float32)
            label[0] = 1.0
            self.samples.append((query, docs, label))

    @staticmethod
    def _text(rng, topic, length):
        own = rng.randint(topic * 10, topic * 10 + 10, length)
        filler = rng.randint(120, 180, length)
        return np.where(rng.rand(length) < 0.7, own, filler)

    def __len__(self):
        return len(self.samples)

    def __getitem__(self, i):
        return self.samples[i]


def collate(items):
    query, docs, label = (np.concatenate(x) for x in zip(*items))
    return torch.from_numpy(query), torch.from_numpy(docs), torch.from_numpy(label)


class SumMatcher(nn.Module):
    """Interaction of all query terms with all document terms."""

    def __init__(self, vocab=180, dim=48):
        super().__init__()
        self.query_embedding = nn.Embedding(vocab, dim)
        self.doc_embedding = nn.Embedding(vocab, dim)
        nn.init.normal_(self.query_embedding.weight, std=0.1)
        nn.init.normal_(self.doc_embedding.weight, std=0.1)

    def forward(self, query, docs):
        q = self.query_embedding(query)
        d = self.doc_embedding(docs)
        return torch.einsum("bqe,bde->bqd", q, d).sum(dim=(1, 2)).unsqueeze(-1)


def main():
    torch.manual_seed(17)
    num_neg = 4
    train_loader = DataLoader(PairDataset(2560, num_neg, 1), batch_size=32, shuffle=True, collate_fn=collate)
    dev_loader = DataLoader(PairDataset(256, num_neg, 2), batch_size=64, collate_fn=collate)
    model = SumMatcher()
    criterion = RankCrossEntropyLoss(num_neg)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-2)
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.2)
    for epoch in range(3):
        model.train()
        history = []
        for query, docs, label in train_loader:
            loss = criterion(model(query, docs), label)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            history.append(loss.item())
        scheduler.step()
        model.eval()
        with torch.no_grad():
            hits, dev = [], []
            for query, docs, label in dev_loader:
                score = model(query, docs)
                dev.append(criterion(score, label).item())
                hits.append((score.view(-1, num_neg + 1).argmax(1) == 0).float().mean().item())
        print(f"epoch {epoch} train {np.mean(history):.4f} last {history[-1]:.4f} "
              f"dev {np.mean(dev):.4f} p@1 {np.mean(hits):.3f}")


if __name__ == "__main__":
    main()

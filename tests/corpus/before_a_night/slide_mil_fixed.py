"""Train an attention-based multiple instance classifier on patch features of slides."""
import argparse
import os
import random

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset


class BaseSlideEncoder(nn.Module):
    """Slide encoders turn the patch features of a slide into one embedding.

    Args:
        freeze: if True, the weights of the encoder are not updated.
    """

    def __init__(self, freeze=True, **build_kwargs):
        super().__init__()
        self.embedding_dim = None
        self._build(**build_kwargs)
        if freeze:
            for param in self.parameters():
                param.requires_grad = False

    def _build(self, **build_kwargs):
        raise NotImplementedError


class GatedAttention(nn.Module):
    def __init__(self, dim, head_dim, n_heads, dropout):
        super().__init__()
        self.v = nn.Sequential(nn.Linear(dim, head_dim), nn.Tanh(), nn.Dropout(dropout))
        self.u = nn.Sequential(nn.Linear(dim, head_dim), nn.Sigmoid(), nn.Dropout(dropout))
        self.w = nn.Linear(head_dim, n_heads, bias=False)

    def forward(self, h):
        return self.w(self.v(h) * self.u(h))


class ABMILSlideEncoder(BaseSlideEncoder):
    """Gated attention pooling over the patches."""

    def _build(self, input_feature_dim, n_heads=1, head_dim=128, dropout=0.1):
        self.pre_attn = nn.Sequential(nn.Linear(input_feature_dim, 256), nn.LayerNorm(256), nn.GELU(),
                                      nn.Dropout(dropout), nn.Linear(256, 128), nn.GELU())
        self.attn = GatedAttention(128, head_dim, n_heads, dropout)
        self.embedding_dim = 128 * n_heads

    def forward(self, features, mask):
        h = self.pre_attn(features)
        scores = self.attn(h).masked_fill(~mask.unsqueeze(2), float("-inf"))
        weights = F.softmax(scores, dim=1)
        return torch.einsum("bnh,bnd->bhd", weights, h).flatten(1)


class BinaryClassificationModel(nn.Module):
    def __init__(self, input_feature_dim=192, n_heads=2, head_dim=128, dropout=0.1, hidden_dim=64):
        super().__init__()
        self.feature_encoder = ABMILSlideEncoder(input_feature_dim=input_feature_dim, n_heads=n_heads,
                                                 head_dim=head_dim, dropout=dropout, freeze=False)
        self.classifier = nn.Sequential(nn.Linear(self.feature_encoder.embedding_dim, hidden_dim), nn.ReLU(),
                                        nn.Linear(hidden_dim, 1))

    def forward(self, features, mask):
        return self.classifier(self.feature_encoder(features, mask)).squeeze(1)


class SlideSet(Dataset):
    """Slides as bags of patch features.

    All tissues are mixtures of a few patch types. A positive slide holds some patches of a
    tumour type; every slide also holds patches of a benign type that stands out as much, in
    another direction.
    """

    def __init__(self, n, dim, seed, world_seed=1234):
        world = np.random.RandomState(world_seed)
        centres = world.normal(0, 0.8, (6, dim))
        basis = np.linalg.qr(world.normal(size=(dim, 2)))[0].T
        rng = np.random.RandomState(seed)
        self.bags, self.labels = [], rng.permutation(np.arange(n) % 2).astype(np.float32)
        for y in self.labels:
            count = rng.randint(48, 97)
            kind = rng.randint(0, 6, count)
            bag = centres[kind] + rng.normal(0, 0.5, (count, dim))
            special = rng.choice(count, rng.randint(8, 15), replace=False)
            for j, p in enumerate(special):
                direction = basis[0] if (y == 1 and j < 5) else basis[1]
                bag[p] += rng.choice([-3.7, 3.7]) * direction
            self.bags.append(torch.from_numpy(bag.astype(np.float32)))

    def __len__(self):
        return len(self.bags)

    def __getitem__(self, i):
        return self.bags[i], self.labels[i]


def collate(rows):
    width = max(len(bag) for bag, _ in rows)
    features = torch.zeros(len(rows), width, rows[0][0].size(1))
    mask = torch.zeros(len(rows), width, dtype=torch.bool)
    for i, (bag, _) in enumerate(rows):
        features[i, :len(bag)] = bag
        mask[i, :len(bag)] = True
    return features, mask, torch.tensor(np.array([y for _, y in rows]))


def auc(scores, labels):
    order = np.argsort(scores)
    ranks = np.empty(len(scores))
    ranks[order] = np.arange(1, len(scores) + 1)
    pos = labels == 1
    return (ranks[pos].sum() - pos.sum() * (pos.sum() + 1) / 2) / (pos.sum() * (~pos).sum())


def evaluate(model, loader, criterion):
    model.eval()
    scores, labels, loss = [], [], 0.0
    with torch.no_grad():
        for features, mask, y in loader:
            logits = model(features, mask)
            loss += criterion(logits, y).item() * len(y)
            scores.append(logits.numpy())
            labels.append(y.numpy())
    scores, labels = np.concatenate(scores), np.concatenate(labels)
    return loss / len(labels), auc(scores, labels), ((scores > 0) == (labels == 1)).mean()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--slides", type=int, default=2400)
    parser.add_argument("--test-slides", type=int, default=400)
    parser.add_argument("--dim", type=int, default=192)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--epochs", type=int, default=200)
    parser.add_argument("--lr", type=float, default=4e-4)
    parser.add_argument("--seed", type=int, default=1234)
    parser.add_argument("--out", default="runs/abmil")
    args = parser.parse_args()

    random.seed(args.seed)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)
    os.makedirs(args.out, exist_ok=True)

    train_loader = DataLoader(SlideSet(args.slides, args.dim, args.seed + 1), batch_size=args.batch_size,
                              shuffle=True, drop_last=True, collate_fn=collate)
    test_loader = DataLoader(SlideSet(args.test_slides, args.dim, args.seed + 2), batch_size=50, collate_fn=collate)

    model = BinaryClassificationModel(input_feature_dim=args.dim)
    criterion = nn.BCEWithLogitsLoss()
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=1e-4)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=args.epochs)

    best = 0.0
    for epoch in range(args.epochs):
        model.train()
        for i, (features, mask, y) in enumerate(train_loader):
            optimizer.zero_grad()
            loss = criterion(model(features, mask), y)
            loss.backward()
            optimizer.step()
            if i % 10 == 0:
                print(f"Epoch {epoch + 1}/{args.epochs} [{i}/{len(train_loader)}] Loss: {loss.item():.4f}", flush=True)
        scheduler.step()
        test_loss, test_auc, test_acc = evaluate(model, test_loader, criterion)
        print(f"Epoch {epoch + 1}/{args.epochs} test loss {test_loss:.4f} AUC {test_auc:.4f} accuracy {test_acc:.4f}",
              flush=True)
        if test_auc > best:
            best = test_auc
            torch.save(model.state_dict(), os.path.join(args.out, "best.pt"))


if __name__ == "__main__":
    main()

import argparse

import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset, WeightedRandomSampler

torch.set_num_threads(1)


class CallDataset(Dataset):
    """Spectrogram clips: background (0) or background with an upsweep call (1)."""

    def __init__(self, n, p_call, seed):
        rng = np.random.RandomState(seed)
        self.labels = (rng.rand(n) < p_call).astype(int)
        self.labels[:2] = [0, 1]
        self.specs = rng.normal(0, 1, (n, 1, 24, 32)).astype(np.float32)
        for i in np.flatnonzero(self.labels):
            t0, f0, slope, amp = rng.randint(2, 14), rng.randint(2, 10), rng.uniform(0.5, 0.9), rng.uniform(2.0, 3.5)
            for k in range(14):
                f = int(f0 + slope * k)
                self.specs[i, 0, f, t0 + k] += amp
        tone = rng.randint(0, 24, n)
        for i in range(n):
            self.specs[i, 0, tone[i]] += 0.8

    @property
    def samples_weight(self):
        prior = np.bincount(self.labels) / len(self.labels)
        return 1.0 / prior

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        return torch.from_numpy(self.specs[i]), int(self.labels[i])


class SmallResNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 8, 5, padding=2, bias=False), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(8, 16, 5, padding=2, bias=False), nn.BatchNorm2d(16), nn.ReLU(), nn.AdaptiveMaxPool2d(2))
        self.fc = nn.Linear(64, 2)

    def forward(self, x):
        return self.fc(self.features(x).flatten(1))


def run_epoch(model, loader, criterion, optimizer=None):
    training = optimizer is not None
    model.train(training)
    total, correct, per_class = 0.0, 0, np.zeros((2, 2))
    with torch.set_grad_enabled(training):
        for x, y in loader:
            out = model(x)
            loss = criterion(out, y)
            if training:
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            total += loss.item()
            for c in (0, 1):
                m = y == c
                per_class[c] += [(out.argmax(1)[m] == c).sum().item(), m.sum().item()]
    recall = per_class[:, 0] / np.maximum(per_class[:, 1], 1)
    return total / len(loader), recall


def main(args):
    torch.manual_seed(args.seed)
    train_set, val_set = CallDataset(640, 0.2, 0), CallDataset(160, 0.5, 1)
    sampler = WeightedRandomSampler(train_set.samples_weight, num_samples=len(train_set), replacement=True)
    train_loader = DataLoader(train_set, batch_size=args.batch_size, sampler=sampler)
    val_loader = DataLoader(val_set, batch_size=80)
    model, criterion = SmallResNet(), nn.CrossEntropyLoss()
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr, weight_decay=1e-4)
    for epoch in range(args.epochs):
        loss, recall = run_epoch(model, train_loader, criterion, optimizer)
        vloss, vrecall = run_epoch(model, val_loader, criterion)
        print(f"epoch {epoch}: train loss {loss:.4f} recall {recall.round(3)}  |  val loss {vloss:.4f} recall {vrecall.round(3)}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--batch_size", type=int, default=32)
    parser.add_argument("--lr", type=float, default=3e-3)
    parser.add_argument("--seed", type=int, default=1)
    main(parser.parse_args())

"""Heart beat classification on exported recordings.

The export tool cuts some beats too short, so the dataset raises for them.
`SafeDataset` / `make_safe_loader` skip such samples instead of stopping the run.
"""
import argparse
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset, RandomSampler, Sampler, SequentialSampler

BEAT_LEN = 192
CLASSES = ["normal", "ventricular", "paced", "st_elevation", "low_t"]


def bump(t, center, width, height):
    return height * np.exp(-0.5 * ((t - center) / width) ** 2)


def synth_beat(label, rng):
    t = np.linspace(0.0, 1.0, BEAT_LEN)
    c = 0.42 + rng.normal(0, 0.025)
    amp = rng.uniform(0.8, 1.2)
    p = bump(t, c - 0.17, 0.022, 0.16)
    q = bump(t, c - 0.03, 0.010, -0.14)
    r = bump(t, c, 0.013, 1.0)
    s = bump(t, c + 0.03, 0.011, -0.24)
    tw = bump(t, c + 0.27, 0.045, 0.30)
    if label == 1:
        r, s, p = bump(t, c, 0.040, 0.9), bump(t, c + 0.09, 0.030, -0.45), 0.0 * t
        tw = bump(t, c + 0.29, 0.055, -0.22)
    elif label == 2:
        p = bump(t, c - 0.08, 0.004, 0.55)
    elif label == 3:
        tw = tw + bump(t, c + 0.13, 0.055, 0.20)
    elif label == 4:
        tw = bump(t, c + 0.27, 0.045, rng.uniform(0.02, 0.10))
    beat = amp * (p + q + r + s + tw)
    beat += 0.06 * np.sin(2 * np.pi * (t * rng.uniform(0.5, 1.5) + rng.random()))
    beat += rng.normal(0, 0.07, BEAT_LEN)
    return beat.astype(np.float32)


class BeatDataset(Dataset):
    def __init__(self, n, seed, damaged=0.02):
        rng = np.random.default_rng(seed)
        self.labels = rng.choice(5, size=n, p=[0.36, 0.18, 0.15, 0.16, 0.15])
        self.beats = []
        for y in self.labels:
            beat = synth_beat(int(y), rng)
            if rng.random() < damaged:
                beat = beat[: rng.integers(20, BEAT_LEN - 1)]
            self.beats.append(beat)

    def __len__(self):
        return len(self.beats)

    def __getitem__(self, index):
        beat = self.beats[index]
        if len(beat) != BEAT_LEN:
            raise IOError("beat %d has %d samples" % (index, len(beat)))
        return torch.from_numpy(beat).unsqueeze(0), int(self.labels[index])


class SafeDataset(Dataset):
    """Wraps a dataset and remembers which samples can be read."""

    def __init__(self, dataset):
        self.dataset = dataset
        self.readable = {}

    def __len__(self):
        return len(self.dataset)

    def is_readable(self, index):
        if index not in self.readable:
            try:
                self.dataset[index]
                self.readable[index] = True
            except Exception:
                self.readable[index] = False
        return self.readable[index]

    def __getitem__(self, index):
        return self.dataset[index]


class SafeSampler(Sampler):
    """Walks over the indices of another sampler and leaves out unreadable samples."""

    def __init__(self, dataset, sampler):
        self.dataset = dataset
        self.sampler = sampler

    def __iter__(self):
        self.indices = list(iter(self.sampler))
        for index in self.indices:
            if self.dataset.is_readable(index):
                yield index

    def __len__(self):
        return len(self.sampler)


def make_safe_loader(dataset, batch_size, shuffle):
    base = RandomSampler(dataset) if shuffle else SequentialSampler(dataset)
    return DataLoader(dataset, batch_size=batch_size, sampler=SafeSampler(dataset, base), drop_last=shuffle)


class BeatNet(nn.Module):
    def __init__(self, n_classes=5):
        super().__init__()

        def block(cin, cout, k):
            return nn.Sequential(
                nn.Conv1d(cin, cout, k, padding=k // 2, bias=False),
                nn.BatchNorm1d(cout),
                nn.ReLU(inplace=True),
                nn.MaxPool1d(2),
            )

        self.features = nn.Sequential(block(1, 32, 9), block(32, 64, 7), block(64, 64, 5))
        self.head = nn.Sequential(nn.Dropout(0.4), nn.Linear(128, n_classes))

    def forward(self, x):
        h = self.features(x)
        h = torch.cat([h.mean(-1), h.amax(-1)], dim=1)
        return self.head(h)


def train_epoch(model, loader, optimizer):
    model.train()
    total, correct, seen = 0.0, 0, 0
    for x, y in loader:
        optimizer.zero_grad()
        out = model(x)
        loss = F.cross_entropy(out, y)
        loss.backward()
        optimizer.step()
        total += loss.item() * len(y)
        correct += (out.argmax(1) == y).sum().item()
        seen += len(y)
    return total / seen, correct / seen


@torch.no_grad()
def evaluate(model, loader):
    model.eval()
    total, correct, seen = 0.0, 0, 0
    for x, y in loader:
        out = model(x)
        total += F.cross_entropy(out, y, reduction="sum").item()
        correct += (out.argmax(1) == y).sum().item()
        seen += len(y)
    return total / seen, correct / seen


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=14)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--weight-decay", type=float, default=1e-4)
    parser.add_argument("--seed", type=int, default=11)
    args = parser.parse_args()

    torch.set_num_threads(1)
    torch.manual_seed(args.seed)
    np.random.seed(args.seed)

    train_set = SafeDataset(BeatDataset(3200, seed=1))
    val_set = SafeDataset(BeatDataset(800, seed=2))
    train_loader = make_safe_loader(train_set, args.batch_size, shuffle=True)
    val_loader = make_safe_loader(val_set, 128, shuffle=False)

    model = BeatNet(len(CLASSES))
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=args.weight_decay)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=args.epochs)
    for epoch in range(1, args.epochs + 1):
        t0 = time.time()
        tr_loss, tr_acc = train_epoch(model, train_loader, optimizer)
        va_loss, va_acc = evaluate(model, val_loader)
        scheduler.step()
        print("epoch %2d | train %.4f acc %.3f | val %.4f acc %.3f | %.1fs"
              % (epoch, tr_loss, tr_acc, va_loss, va_acc, time.time() - t0), flush=True)
    bad = sum(1 for ok in train_set.readable.values() if not ok)
    print("skipped %d damaged beats of %d" % (bad, len(train_set)))


if __name__ == "__main__":
    main()

"""Fine-tune a small recurrent voice-activity detector on frame-level labels."""
import argparse
import os
import random

import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset

FRAMES, MELS = 48, 32


def parse_args():
    p = argparse.ArgumentParser()
    p.add_argument("--epochs", type=int, default=400)
    p.add_argument("--batch-size", type=int, default=64)
    p.add_argument("--learning-rate", type=float, default=1e-3)
    p.add_argument("--train-clips", type=int, default=1600)
    p.add_argument("--val-clips", type=int, default=320)
    p.add_argument("--seed", type=int, default=42)
    p.add_argument("--checkpoint", default="vad_tuned.pt")
    return p.parse_args()


class ClipDataset(Dataset):
    """Log-mel clips: harmonic speech segments over stationary noise."""

    def __init__(self, n, seed, mean=None, std=None):
        rng = np.random.default_rng(seed)
        mel = np.arange(MELS)
        feats = rng.normal(0.0, 0.6, (n, FRAMES, MELS)).astype(np.float32)
        labels = np.zeros((n, FRAMES), dtype=np.float32)
        for i in range(n):
            for _ in range(rng.integers(1, 4)):
                start = rng.integers(0, FRAMES - 8)
                stop = min(FRAMES, start + rng.integers(6, 18))
                pitch = rng.uniform(4.0, 9.0)
                envelope = np.cos(2 * np.pi * mel / pitch) * np.exp(-mel / 20.0)
                feats[i, start:stop] += rng.uniform(1.5, 2.5) * envelope
                labels[i, start:stop] = 1.0
        self.mean = feats.mean((0, 1)) if mean is None else mean
        self.std = feats.std((0, 1)) if std is None else std
        self.feats = torch.from_numpy((feats - self.mean) / self.std)
        self.labels = torch.from_numpy(labels)

    def __len__(self):
        return len(self.feats)

    def __getitem__(self, i):
        return self.feats[i], self.labels[i]


class VadDecoder(nn.Module):
    def __init__(self, hidden=64):
        super().__init__()
        self.encoder = nn.Sequential(nn.Conv1d(MELS, hidden, 3, padding=1), nn.ReLU(),
                                     nn.Conv1d(hidden, hidden, 3, padding=1), nn.ReLU())
        self.rnn = nn.GRU(hidden, hidden, batch_first=True)
        self.decoder = nn.Linear(hidden, 1)

    def forward(self, x):
        h = self.encoder(x.transpose(1, 2)).transpose(1, 2)
        h, _ = self.rnn(h)
        return self.decoder(h).squeeze(-1)


def train(model, loader, criterion, optimizer):
    model.train()
    total, count = 0.0, 0
    for feats, labels in loader:
        logits = model(feats)
        loss = criterion(logits, labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item() * len(feats)
        count += len(feats)
    return total / count


@torch.no_grad()
def validate(model, loader, criterion):
    model.eval()
    total, right, count = 0.0, 0, 0
    for feats, labels in loader:
        logits = model(feats)
        total += criterion(logits, labels).item() * len(feats)
        right += ((logits > 0) == (labels > 0.5)).float().mean().item() * len(feats)
        count += len(feats)
    return total / count, right / count


def main():
    args = parse_args()
    random.seed(args.seed)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)

    train_set = ClipDataset(args.train_clips, args.seed)
    val_set = ClipDataset(args.val_clips, args.seed + 1, train_set.mean, train_set.std)
    generator = torch.Generator().manual_seed(args.seed)
    train_loader = DataLoader(train_set, args.batch_size, shuffle=True, generator=generator)
    val_loader = DataLoader(val_set, args.batch_size)

    model = VadDecoder()
    criterion = nn.BCEWithLogitsLoss()
    optimizer = torch.optim.Adam(model.parameters(), lr=args.learning_rate)
    start_epoch, best = 0, float("inf")
    if os.path.exists(args.checkpoint):
        state = torch.load(args.checkpoint)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        generator.set_state(state["generator"])
        torch.set_rng_state(state["rng"])
        start_epoch, best = state["epoch"] + 1, state["best"]
        print(f"resumed from epoch {state['epoch']}")

    for epoch in range(start_epoch, args.epochs):
        train_loss = train(model, train_loader, criterion, optimizer)
        val_loss, val_acc = validate(model, val_loader, criterion)
        best = min(best, val_loss)
        print(f"epoch {epoch:03d} train {train_loss:.4f} val {val_loss:.4f} acc {val_acc:.3f}", flush=True)
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(),
                    "generator": generator.get_state(), "rng": torch.get_rng_state(),
                    "epoch": epoch, "best": best}, args.checkpoint)


if __name__ == "__main__":
    main()

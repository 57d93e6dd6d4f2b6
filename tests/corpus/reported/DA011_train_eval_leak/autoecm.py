"""CNN that classifies the equivalent circuit from a plot of an impedance spectrum."""
import argparse

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

CIRCUITS = ["RC", "RC-RC", "RCPE", "RCPE-RCPE", "L-RC-RC"]
SIZE = 32


def spectrum(kind, rng):
    f = np.logspace(-1, 5, 60)
    w = 2j * np.pi * f
    r0, r1, r2 = rng.uniform(0.05, 0.4), rng.uniform(0.5, 2), rng.uniform(0.3, 1.5)
    t1, t2 = 10 ** rng.uniform(-4, -2.2), 10 ** rng.uniform(-2.2, -0.2)
    a1, a2 = rng.uniform(0.6, 0.85, 2)
    if kind == "RC":
        z = r0 + r1 / (1 + w * t1)
    elif kind == "RC-RC":
        z = r0 + r1 / (1 + w * t1) + r2 / (1 + w * t2)
    elif kind == "RCPE":
        z = r0 + r1 / (1 + (w * t1) ** a1)
    elif kind == "RCPE-RCPE":
        z = r0 + r1 / (1 + (w * t1) ** a1) + r2 / (1 + (w * t2) ** a2)
    else:
        z = r0 + w * 10 ** rng.uniform(-7, -6) + r1 / (1 + w * t1) + r2 / (1 + w * t2)
    scale = 0.04 * np.abs(z).mean()
    return z + rng.normal(0, scale, 60) + 1j * rng.normal(0, scale, 60)


def plot(z):
    """Nyquist plot rendered into a small grey image."""
    img = np.zeros((SIZE, SIZE), np.float32)
    x, y = z.real, -z.imag
    span = max(np.ptp(x), np.ptp(y)) + 1e-9
    px = ((x - x.min()) / span * (SIZE - 1)).round().astype(int)
    py = ((y - y.min()) / span * (SIZE - 1)).round().astype(int)
    np.add.at(img, (SIZE - 1 - py, px), 1.0)
    return np.minimum(img, 3.0) / 3.0


def load_images(n, seed):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, len(CIRCUITS), n)
    images = np.stack([plot(spectrum(CIRCUITS[c], rng)) for c in labels])
    return torch.from_numpy(images)[:, None], torch.from_numpy(labels)


def image_dataset(images, labels, subset, validation_split=0.2, shuffle=True, seed=20):
    """The 'training' or 'validation' part of the images."""
    order = np.arange(len(images))
    if shuffle:
        np.random.default_rng(seed).shuffle(order)
    cut = int(validation_split * len(order))
    order = order[:-cut] if subset == "training" else order[-cut:]
    order = torch.from_numpy(order)
    return TensorDataset(images[order], labels[order])


def build_model():
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(32, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Dropout(0.2), nn.Linear(32 * 16, 64), nn.ReLU(), nn.Linear(64, len(CIRCUITS)))


def run_epoch(model, loader, optimizer=None):
    train = optimizer is not None
    model.train(train)
    total, right, n = 0.0, 0, 0
    with torch.set_grad_enabled(train):
        for images, labels in loader:
            logits = model(images)
            loss = F.cross_entropy(logits, labels)
            if train:
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            total += loss.item() * len(images)
            right += (logits.argmax(1) == labels).sum().item()
            n += len(images)
    return total / n, right / n


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=18)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--lr", type=float, default=1e-3)
    args = parser.parse_args()
    torch.manual_seed(20)
    torch.set_num_threads(1)

    images, labels = load_images(2000, seed=1)
    train_ds = image_dataset(images, labels, "training", shuffle=True, seed=20)
    val_ds = image_dataset(images, labels, "validation", shuffle=False, seed=20)
    test_ds = TensorDataset(*load_images(800, seed=2))
    train_loader = DataLoader(train_ds, batch_size=args.batch_size, shuffle=True)
    val_loader = DataLoader(val_ds, batch_size=100)
    test_loader = DataLoader(test_ds, batch_size=100)
    print(f"{len(train_ds)} training, {len(val_ds)} validation images")

    model = build_model()
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr, weight_decay=1e-4)
    for epoch in range(args.epochs):
        tl, ta = run_epoch(model, train_loader, optimizer)
        vl, va = run_epoch(model, val_loader)
        print(f"epoch {epoch:2d} train {tl:.4f} {ta:.3f}  val {vl:.4f} {va:.3f}", flush=True)
    print("test loss %.4f acc %.3f" % run_epoch(model, test_loader))


if __name__ == "__main__":
    main()

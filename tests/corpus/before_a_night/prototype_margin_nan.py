"""Prototype learning with an angular margin on small greyscale shapes."""
import argparse
import math
import os
import random

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=400)
parser.add_argument("--batch-size", type=int, default=64)
parser.add_argument("--lr", type=float, default=1e-3)
parser.add_argument("--margin", type=float, default=0.2)
parser.add_argument("--scale", type=float, default=16.0)
parser.add_argument("--momentum", type=float, default=0.95)
parser.add_argument("--seed", type=int, default=7)
parser.add_argument("--ckpt", default="prototypes.pt")
args = parser.parse_args()

NUM_CLASSES = 8
SIZE = 24


def make_shapes(n, rng):
    yy, xx = np.mgrid[0:SIZE, 0:SIZE].astype(np.float32)
    images = np.zeros((n, 1, SIZE, SIZE), dtype=np.float32)
    labels = np.arange(n) % NUM_CLASSES
    rng.shuffle(labels)
    for i, c in enumerate(labels):
        cx, cy = rng.uniform(9, 15, size=2)
        angle = math.pi * c / NUM_CLASSES + rng.uniform(-0.08, 0.08)
        u = (xx - cx) * math.cos(angle) + (yy - cy) * math.sin(angle)
        v = -(xx - cx) * math.sin(angle) + (yy - cy) * math.cos(angle)
        images[i, 0] = np.exp(-(u / 7.0) ** 2 - (v / 1.8) ** 2) * rng.uniform(0.8, 1.2)
    images += rng.normal(0, 0.1, images.shape).astype(np.float32)
    return torch.from_numpy(images), torch.from_numpy(labels).long()


class Embedder(nn.Module):
    def __init__(self, dim=64):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(32, 48, 3, padding=1), nn.ReLU(), nn.Flatten(),
            nn.Linear(48 * 6 * 6, dim))
        self.register_buffer("prototypes", torch.zeros(NUM_CLASSES, dim))
        self.register_buffer("ready", torch.zeros((), dtype=torch.bool))

    def forward(self, x):
        return F.normalize(self.body(x), dim=1)

    @torch.no_grad()
    def start_prototypes(self, feats, labels):
        for c in range(NUM_CLASSES):
            self.prototypes[c] = feats[labels == c][0]
        self.ready.fill_(True)

    @torch.no_grad()
    def update_prototypes(self, feats, labels, m):
        for c in labels.unique():
            mean = F.normalize(feats[labels == c].mean(0), dim=0)
            self.prototypes[c] = F.normalize(m * self.prototypes[c] + (1 - m) * mean, dim=0)


def margin_loss(feats, prototypes, labels, margin, scale):
    cosine = feats @ prototypes.t()
    sine = torch.sqrt(1.0 - torch.pow(cosine, 2))
    phi = cosine * math.cos(margin) - sine * math.sin(margin)
    target = F.one_hot(labels, NUM_CLASSES).bool()
    logits = torch.where(target, phi, cosine) * scale
    return F.cross_entropy(logits, labels)


def validate(model, loader):
    model.eval()
    correct, total = 0, 0
    with torch.no_grad():
        for x, y in loader:
            pred = (model(x) @ model.prototypes.t()).argmax(1)
            correct += (pred == y).sum().item()
            total += y.numel()
    return correct / total


def main():
    random.seed(args.seed)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)
    rng = np.random.default_rng(args.seed)
    x_train, y_train = make_shapes(1536, rng)
    x_val, y_val = make_shapes(384, rng)
    mean, std = x_train.mean(), x_train.std()
    train_set = TensorDataset((x_train - mean) / std, y_train)
    val_set = TensorDataset((x_val - mean) / std, y_val)
    gen = torch.Generator()
    train_loader = DataLoader(train_set, args.batch_size, shuffle=True, generator=gen)
    val_loader = DataLoader(val_set, 128)

    model = Embedder()
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, args.epochs, eta_min=1e-5)
    first_epoch = 0
    if os.path.exists(args.ckpt):
        state = torch.load(args.ckpt)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        scheduler.load_state_dict(state["scheduler"])
        torch.set_rng_state(state["rng"])
        first_epoch = state["epoch"] + 1
        print(f"resumed at epoch {first_epoch}")

    for epoch in range(first_epoch, args.epochs):
        gen.manual_seed(args.seed * 1000 + epoch)
        model.train()
        running = 0.0
        for step, (x, y) in enumerate(train_loader):
            feats = model(x)
            if not model.ready:
                model.start_prototypes(feats.detach(), y)
            loss = margin_loss(feats, model.prototypes.clone(), y, args.margin, args.scale)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            model.update_prototypes(feats.detach(), y, args.momentum)
            running += loss.item()
            if step % 8 == 0:
                print(f"epoch {epoch} step {step} loss {loss.item():.4f}", flush=True)
        scheduler.step()
        acc = validate(model, val_loader)
        print(f"epoch {epoch} train {running / len(train_loader):.4f} val acc {acc:.4f}", flush=True)
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(),
                    "scheduler": scheduler.state_dict(), "rng": torch.get_rng_state(),
                    "epoch": epoch}, args.ckpt)


if __name__ == "__main__":
    main()

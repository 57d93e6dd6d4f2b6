"""Single-object detector: convolutional backbone, one transformer encoder layer, class and box heads."""
import argparse
import os
import random

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

SIZE, CLASSES = 32, 3


def make_scenes(n, seed):
    """One bright object (square, disc or cross) on a noisy background."""
    rng = np.random.default_rng(seed)
    yy, xx = np.mgrid[:SIZE, :SIZE]
    images = rng.normal(0, 0.2, (n, 1, SIZE, SIZE)).astype(np.float32)
    labels = np.arange(n) % CLASSES
    rng.shuffle(labels)
    boxes = np.zeros((n, 4), dtype=np.float32)
    for i in range(n):
        r = rng.uniform(3, 7)
        cy, cx = rng.uniform(r + 1, SIZE - r - 1, 2)
        dy, dx = np.abs(yy - cy), np.abs(xx - cx)
        if labels[i] == 0:
            mask = (dy < r) & (dx < r)
        elif labels[i] == 1:
            mask = dy ** 2 + dx ** 2 < r ** 2
        else:
            mask = ((dy < r / 3) & (dx < r)) | ((dx < r / 3) & (dy < r))
        images[i, 0][mask] += rng.uniform(1.0, 1.6)
        boxes[i] = np.array([cx, cy, 2 * r, 2 * r]) / SIZE
    return TensorDataset(torch.from_numpy(images), torch.from_numpy(labels), torch.from_numpy(boxes))


class TransformerEncoderLayer(nn.Module):
    def __init__(self, d_model, nhead, dim_feedforward=128, dropout=0.0):
        super().__init__()
        self.self_attn = nn.MultiheadAttention(d_model, nhead, dropout)
        self.linear1 = nn.Linear(d_model, dim_feedforward)
        self.linear2 = nn.Linear(dim_feedforward, d_model)
        self.norm1 = nn.LayerNorm(d_model)
        self.norm2 = nn.LayerNorm(d_model)

    def forward(self, src, pos):
        q = k = src + pos
        src = self.norm1(src + self.self_attn(q, k, value=src, need_weights=False)[0])
        return self.norm2(src + self.linear2(F.gelu(self.linear1(src))))


class Detector(nn.Module):
    def __init__(self, dim=48):
        super().__init__()
        self.backbone = nn.Sequential(
            nn.Conv2d(1, 24, 3, stride=2, padding=1), nn.BatchNorm2d(24), nn.ReLU(),
            nn.Conv2d(24, dim, 3, stride=2, padding=1), nn.BatchNorm2d(dim), nn.ReLU())
        self.pos = nn.Parameter(torch.randn(1, (SIZE // 4) ** 2, dim) * 0.5)
        self.encoder = TransformerEncoderLayer(dim, 4)
        self.attend = nn.Linear(dim, 1)
        self.cls_head = nn.Linear(dim, CLASSES)
        self.box_head = nn.Sequential(nn.Linear(dim, dim), nn.ReLU(), nn.Linear(dim, 4))

    def forward(self, images):
        feats = self.backbone(images).flatten(2).transpose(1, 2)
        feats = self.encoder(feats, self.pos)
        weights = self.attend(feats).softmax(dim=1)
        pooled = (weights * feats).sum(dim=1)
        return self.cls_head(pooled), self.box_head(pooled).sigmoid()


def criterion(outputs, labels, boxes):
    logits, pred = outputs
    return F.cross_entropy(logits, labels) + 5.0 * F.l1_loss(pred, boxes)


@torch.no_grad()
def evaluate(model, loader):
    model.eval()
    loss, right, err, n = 0.0, 0, 0.0, 0
    for images, labels, boxes in loader:
        out = model(images)
        loss += criterion(out, labels, boxes).item() * len(images)
        right += (out[0].argmax(1) == labels).sum().item()
        err += (out[1] - boxes).abs().mean(1).sum().item() * SIZE
        n += len(images)
    return loss / n, right / n, err / n


def main():
    parser = argparse.ArgumentParser(description="train detector")
    parser.add_argument("--epochs", type=int, default=200)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--checkpoint", default="detector.pth")
    args = parser.parse_args()

    random.seed(args.seed)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)
    generator = torch.Generator().manual_seed(args.seed)
    train_loader = DataLoader(make_scenes(960, 1), args.batch_size, shuffle=True, generator=generator)
    val_loader = DataLoader(make_scenes(192, 2), args.batch_size)

    model = Detector()
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=1e-4)
    scheduler = torch.optim.lr_scheduler.MultiStepLR(
        optimizer, [int(args.epochs * 0.7), int(args.epochs * 0.9)], gamma=0.2)
    start = 0
    if os.path.exists(args.checkpoint):
        state = torch.load(args.checkpoint)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        scheduler.load_state_dict(state["scheduler"])
        generator.set_state(state["generator"])
        torch.set_rng_state(state["rng"])
        start = state["epoch"] + 1

    for epoch in range(start, args.epochs):
        model.train()
        total = 0.0
        for images, labels, boxes in train_loader:
            loss = criterion(model(images), labels, boxes)
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 5.0)
            optimizer.step()
            total += loss.item()
        scheduler.step()
        val_loss, acc, err = evaluate(model, val_loader)
        print(f"epoch {epoch} train {total / len(train_loader):.4f} val {val_loss:.4f} acc {acc:.3f} "
              f"box error {err:.2f} px", flush=True)
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(),
                    "scheduler": scheduler.state_dict(), "generator": generator.get_state(),
                    "rng": torch.get_rng_state(), "epoch": epoch}, args.checkpoint)


if __name__ == "__main__":
    main()

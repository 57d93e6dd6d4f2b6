"""A small anchor-free detector for fridge objects.

Each 64x64 picture holds a few drawn objects. The head predicts, for every cell of an
8x8 grid, the class of the object whose centre lies in the cell (0 is background) and
its box.
"""
import argparse
import os
import random

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

LABELS = ["can", "carton", "milk_bottle", "water_bottle"]
COLORS = {"can": (0.85, 0.15, 0.15), "carton": (0.9, 0.75, 0.3),
          "milk_bottle": (0.9, 0.9, 0.95), "water_bottle": (0.3, 0.5, 0.9)}
ASPECT = {"can": 1.4, "carton": 1.1, "milk_bottle": 1.9, "water_bottle": 2.4}
SIZE, GRID = 64, 8
CELL = SIZE // GRID


def draw_object(img, name, cx, cy, w, h, rng):
    x0, x1 = int(cx - w / 2), int(cx + w / 2)
    y0, y1 = int(cy - h / 2), int(cy + h / 2)
    color = np.clip(np.array(COLORS[name]) + rng.normal(0, 0.06, 3), 0, 1)
    img[:, y0:y1, x0:x1] = color[:, None, None]
    if name == "can":
        img[:, y0:y0 + 2, x0:x1] = 0.7
        img[:, y1 - 2:y1, x0:x1] = 0.7
    elif name == "carton":
        img[:, y0:y0 + h // 4, x0:x1] *= 0.6
    else:
        neck = max(1, w // 4)
        img[:, y0:y0 + h // 4, x0:x0 + neck] = 0.4
        img[:, y0:y0 + h // 4, x1 - neck:x1] = 0.4
    return x0, y0, x1, y1


class FridgeObjects(Dataset):
    """Pictures with their annotations: a list of (label name, box)."""

    def __init__(self, n, seed, flip=False):
        rng = np.random.RandomState(seed)
        self.labels = LABELS
        self.flip = flip
        self.images = np.empty((n, 3, SIZE, SIZE), dtype=np.float32)
        self.annotations = []
        for i in range(n):
            img = np.full((3, SIZE, SIZE), 0.4, dtype=np.float32)
            img += rng.normal(0, 0.05, (3, SIZE, 1)).astype(np.float32)
            anno, used = [], []
            for _ in range(rng.randint(1, 5)):
                name = LABELS[rng.randint(len(LABELS))]
                w = rng.randint(7, 13)
                h = int(w * ASPECT[name])
                cx, cy = rng.randint(w // 2 + 1, SIZE - w // 2 - 1), rng.randint(h // 2 + 1, SIZE - h // 2 - 1)
                if any(abs(cx - ux) < (w + uw) / 2 and abs(cy - uy) < (h + uh) / 2 for ux, uy, uw, uh in used):
                    continue
                used.append((cx, cy, w, h))
                anno.append((name, draw_object(img, name, cx, cy, w, h, rng)))
            img += rng.normal(0, 0.03, img.shape)
            self.images[i] = img
            self.annotations.append(anno)

    def __len__(self):
        return len(self.images)

    def __getitem__(self, idx):
        img = self.images[idx]
        mirrored = self.flip and random.random() < 0.5
        if mirrored:
            img = img[:, :, ::-1].copy()
        cls = np.zeros((GRID, GRID), dtype=np.int64)
        box = np.zeros((4, GRID, GRID), dtype=np.float32)
        for name, (x0, y0, x1, y1) in self.annotations[idx]:
            if mirrored:
                x0, x1 = SIZE - x1, SIZE - x0
            cx, cy = (x0 + x1) / 2, (y0 + y1) / 2
            gx, gy = int(cx // CELL), int(cy // CELL)
            label_idx = self.labels.index(name)
            cls[gy, gx] = label_idx
            box[:, gy, gx] = (cx / CELL - gx, cy / CELL - gy, np.log((x1 - x0) / CELL), np.log((y1 - y0) / CELL))
        return torch.from_numpy((img - 0.45) / 0.25), torch.from_numpy(cls), torch.from_numpy(box)


def conv(cin, cout, stride=1):
    return nn.Sequential(nn.Conv2d(cin, cout, 3, stride, 1, bias=False), nn.BatchNorm2d(cout), nn.ReLU(inplace=True))


class Detector(nn.Module):
    def __init__(self, num_classes, width=24):
        super().__init__()
        self.body = nn.Sequential(
            conv(3, width), conv(width, width, 2), conv(width, 2 * width), conv(2 * width, 2 * width, 2),
            conv(2 * width, 3 * width), conv(3 * width, 3 * width, 2), conv(3 * width, 3 * width))
        self.cls_head = nn.Conv2d(3 * width, num_classes, 1)
        self.box_head = nn.Conv2d(3 * width, 4, 1)

    def forward(self, x):
        feat = self.body(x)
        return self.cls_head(feat), self.box_head(feat)


def detection_loss(cls_logits, boxes, cls, box):
    per_cell = F.cross_entropy(cls_logits, cls, reduction="none")
    pos = cls > 0
    n_pos = pos.sum().clamp(min=1)
    # background cells are many: half of the weight goes to them
    loss_cls = per_cell[pos].sum() / n_pos + per_cell[~pos].mean()
    err = F.smooth_l1_loss(boxes, box, reduction="none").sum(1)
    loss_box = err[pos].sum() / n_pos
    return loss_cls, loss_box


def evaluate(model, loader, num_classes):
    model.eval()
    tp = torch.zeros(num_classes)
    n_pred = torch.zeros(num_classes)
    n_true = torch.zeros(num_classes)
    loss_sum, n = 0.0, 0
    with torch.no_grad():
        for images, cls, box in loader:
            logits, boxes = model(images)
            loss_cls, loss_box = detection_loss(logits, boxes, cls, box)
            loss_sum += (loss_cls + loss_box).item() * len(images)
            n += len(images)
            pred = logits.argmax(1)
            for k in range(1, num_classes):
                tp[k] += ((pred == k) & (cls == k)).sum()
                n_pred[k] += (pred == k).sum()
                n_true[k] += (cls == k).sum()
    f1 = 2 * tp / (n_pred + n_true).clamp(min=1)
    return loss_sum / n, f1[1:]


def main(args):
    random.seed(args.seed)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)
    os.makedirs(args.output, exist_ok=True)

    train_loader = DataLoader(FridgeObjects(args.n_train, args.seed, flip=True), args.batch_size,
                              shuffle=True, drop_last=True)
    test_loader = DataLoader(FridgeObjects(args.n_test, args.seed + 1), args.batch_size)

    num_classes = len(LABELS) + 1
    model = Detector(num_classes)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=1e-4)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=args.epochs)

    best = 0.0
    for epoch in range(args.epochs):
        model.train()
        for i, (images, cls, box) in enumerate(train_loader):
            logits, boxes = model(images)
            loss_cls, loss_box = detection_loss(logits, boxes, cls, box)
            loss = loss_cls + loss_box
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if i % 10 == 0:
                print(f"Epoch [{epoch}] [{i}/{len(train_loader)}] lr {scheduler.get_last_lr()[0]:.6f} "
                      f"loss {loss.item():.4f} (cls {loss_cls.item():.4f}, box {loss_box.item():.4f})", flush=True)
        scheduler.step()
        test_loss, f1 = evaluate(model, test_loader, num_classes)
        print(f"Epoch [{epoch}] test loss {test_loss:.4f} mean F1 {f1.mean():.3f} "
              f"per class {[round(v, 3) for v in f1.tolist()]}", flush=True)
        if f1.mean() > best:
            best = f1.mean().item()
            torch.save({"model": model.state_dict(), "labels": LABELS}, os.path.join(args.output, "model_best.pt"))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--n-train", type=int, default=4000)
    parser.add_argument("--n-test", type=int, default=500)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--epochs", type=int, default=100)
    parser.add_argument("--lr", type=float, default=2e-3)
    parser.add_argument("--seed", type=int, default=3)
    parser.add_argument("--output", default="runs/fridge")
    main(parser.parse_args())

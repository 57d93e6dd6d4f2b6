"""LYTNet-like training: state of a pedestrian light and direction of the zebra crossing."""
import argparse
import csv
import os
import random

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

MODES = ["red", "green", "countdown_green", "countdown_blank", "none"]
SIZE = 48


def make_picture(rng):
    """A street with a crossing (its midline is the target) and maybe a light."""
    img = np.full((3, SIZE, SIZE), 0.35, dtype=np.float32)
    img[:, :SIZE // 3] = rng.uniform(0.5, 0.8, (3, 1, 1))
    bottom, top = rng.uniform(0.25, 0.75), rng.uniform(0.35, 0.65)
    for k in range(7):
        y = SIZE - 2 - 4 * k
        f = (SIZE - 1 - y) / (SIZE * 0.66)
        centre = (bottom + (top - bottom) * f) * SIZE
        half = (0.30 - 0.18 * f) * SIZE
        x0, x1 = max(0, int(centre - half)), min(SIZE, int(centre + half))
        img[:, y - 1:y + 1, x0:x1] = rng.uniform(0.8, 0.95)
    mode = rng.randint(len(MODES))
    lx, ly = rng.randint(4, SIZE - 12), rng.randint(2, 8)
    if MODES[mode] != "none":
        img[:, ly:ly + 9, lx:lx + 6] = 0.05
        if MODES[mode] == "red":
            img[0, ly + 1:ly + 4, lx + 1:lx + 5] = 0.95
        else:
            img[1, ly + 5:ly + 8, lx + 1:lx + 3] = 0.95
        if MODES[mode] == "countdown_green":
            img[1, ly + 1:ly + 4, lx + 2:lx + 5] = 0.9
        elif MODES[mode] == "countdown_blank":
            img[1, ly + 5:ly + 8, lx + 1:lx + 3] = 0.05
            img[0:2, ly + 1:ly + 4, lx + 2:lx + 5] = 0.9
    img += rng.normal(0, 0.06, img.shape)
    return img, mode, np.array([bottom, 1.0, top, 0.34], dtype=np.float32)


class StreetData(Dataset):
    def __init__(self, n, seed, flip=False):
        rng = np.random.RandomState(seed)
        rows = [make_picture(rng) for _ in range(n)]
        self.images = (np.stack([r[0] for r in rows]).astype(np.float32) - 0.5) / 0.25
        self.modes = [r[1] for r in rows]
        self.points = np.stack([r[2] for r in rows])
        self.flip = flip

    def __len__(self):
        return len(self.modes)

    def __getitem__(self, i):
        img, points = self.images[i], self.points[i].copy()
        if self.flip and random.random() < 0.5:
            img = img[:, :, ::-1].copy()
            points[0], points[2] = 1 - points[0], 1 - points[2]
        return torch.from_numpy(img), self.modes[i], torch.from_numpy(points)


class InvertedResidual(nn.Module):
    def __init__(self, inp, oup, stride, expand):
        super().__init__()
        hidden = inp * expand
        self.use_res = stride == 1 and inp == oup
        self.conv = nn.Sequential(
            nn.Conv2d(inp, hidden, 1, bias=False), nn.BatchNorm2d(hidden), nn.ReLU6(inplace=True),
            nn.Conv2d(hidden, hidden, 3, stride, 1, groups=hidden, bias=False), nn.BatchNorm2d(hidden),
            nn.ReLU6(inplace=True),
            nn.Conv2d(hidden, oup, 1, bias=False), nn.BatchNorm2d(oup))

    def forward(self, x):
        return x + self.conv(x) if self.use_res else self.conv(x)


class LYTNet(nn.Module):
    # expansion, channels, repeats, stride
    SETTING = [(1, 8, 1, 1), (4, 12, 3, 2), (4, 16, 3, 2), (4, 24, 4, 2), (4, 32, 4, 1), (4, 48, 2, 1)]

    def __init__(self):
        super().__init__()
        layers = [nn.Conv2d(3, 12, 3, 1, 1, bias=False), nn.BatchNorm2d(12), nn.ReLU6(inplace=True)]
        inp = 12
        for expand, channels, repeats, stride in self.SETTING:
            for k in range(repeats):
                layers.append(InvertedResidual(inp, channels, stride if k == 0 else 1, expand))
                inp = channels
        layers += [nn.Conv2d(inp, 128, 1, bias=False), nn.BatchNorm2d(128), nn.ReLU6(inplace=True)]
        self.features = nn.Sequential(*layers)
        self.dropout = nn.Dropout(0.2)
        self.classifier = nn.Linear(128, len(MODES))
        self.direction = nn.Linear(128, 4)

    def forward(self, x):
        x = self.dropout(self.features(x).mean((2, 3)))
        return self.classifier(x), self.direction(x)


def my_loss(pred_class, pred_direc, mode, points, weight):
    cross_entropy = F.cross_entropy(pred_class, mode)
    MSE = F.mse_loss(pred_direc, points)
    return (1 - weight) * cross_entropy + weight * MSE * 20, MSE, cross_entropy


def train_epoch(model, loader, optimizer, weight, epoch):
    model.train()
    running_loss, running_loss_MSE, running_cross_entropy = 0.0, 0.0, 0.0
    for i, (images, mode, points) in enumerate(loader):
        pred_classes, pred_direc = model(images)
        loss, MSE, cross_entropy = my_loss(pred_classes, pred_direc, mode, points, weight)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

        running_loss += loss
        running_loss_MSE += MSE
        running_cross_entropy += cross_entropy
        if i % 10 == 0:
            print(f"epoch {epoch} [{i}/{len(loader)}] loss {loss.item():.4f} MSE {MSE.item():.5f} "
                  f"CE {cross_entropy.item():.4f}", flush=True)
    n = len(loader)
    return running_loss / n, running_loss_MSE / n, running_cross_entropy / n


def val_epoch(model, loader, weight):
    model.eval()
    val_running_loss, val_mse_loss, val_ce_loss, correct, total = 0.0, 0.0, 0.0, 0, 0
    with torch.no_grad():
        for images, mode, points in loader:
            pred_classes, pred_direc = model(images)
            loss, MSE, cross_entropy = my_loss(pred_classes, pred_direc, mode, points, weight)
            val_running_loss += loss * len(images)
            val_mse_loss += MSE * len(images)
            val_ce_loss += cross_entropy * len(images)
            correct += (pred_classes.argmax(1) == mode).sum().item()
            total += len(images)
    return val_running_loss / total, val_mse_loss / total, val_ce_loss / total, correct / total


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--num_train", type=int, default=5000)
    parser.add_argument("--num_val", type=int, default=600)
    parser.add_argument("--batch_size", type=int, default=24)
    parser.add_argument("--epochs", type=int, default=400)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--direction_weight", type=float, default=0.5)
    parser.add_argument("--seed", type=int, default=10)
    parser.add_argument("--save_dir", default="runs/lytnet")
    args = parser.parse_args()
    random.seed(args.seed)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)
    os.makedirs(args.save_dir, exist_ok=True)

    train_loader = DataLoader(StreetData(args.num_train, args.seed, flip=True), args.batch_size, shuffle=True,
                              drop_last=True)
    val_loader = DataLoader(StreetData(args.num_val, args.seed + 1), 60)
    model = LYTNet()
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr, weight_decay=1e-4)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=args.epochs // 4, gamma=0.3)

    train_losses, train_MSE, train_CE, val_losses, val_MSE, val_CE, val_acc = [], [], [], [], [], [], []
    lowest_loss = float("inf")
    for epoch in range(args.epochs):
        loss, mse, ce = train_epoch(model, train_loader, optimizer, args.direction_weight, epoch)
        train_losses.append(loss)
        train_MSE.append(mse)
        train_CE.append(ce)
        scheduler.step()

        loss, mse, ce, acc = val_epoch(model, val_loader, args.direction_weight)
        val_losses.append(loss)
        val_MSE.append(mse)
        val_CE.append(ce)
        val_acc.append(acc)
        print(f"epoch {epoch} train loss {float(train_losses[-1]):.4f} val loss {float(loss):.4f} "
              f"MSE {float(mse):.5f} CE {float(ce):.4f} accuracy {acc:.4f}", flush=True)
        if loss < lowest_loss:
            lowest_loss = loss
            torch.save(model.state_dict(), os.path.join(args.save_dir, "lytnet_best.pth"))

    with open(os.path.join(args.save_dir, "history.csv"), "w", newline="") as f:
        writer = csv.writer(f)
        writer.writerow(["train_loss", "train_mse", "train_ce", "val_loss", "val_mse", "val_ce", "val_acc"])
        for row in zip(train_losses, train_MSE, train_CE, val_losses, val_MSE, val_CE, val_acc):
            writer.writerow([float(v) for v in row])


if __name__ == "__main__":
    main()

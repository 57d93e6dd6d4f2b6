"""Ten-class image classification with unequal classes and the focal loss."""
import argparse
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

CLASSES = 10
SIZE = 32
FREQ = np.array([0.20, 0.16, 0.13, 0.11, 0.10, 0.08, 0.07, 0.06, 0.05, 0.04])


def paint(kind, rng):
    """Five shapes, each filled or as an outline."""
    yy, xx = np.mgrid[0:SIZE, 0:SIZE].astype(float)
    cy, cx = rng.uniform(12, 20, 2)
    r = rng.uniform(7, 10.5)
    y, x = (yy - cy) / r, (xx - cx) / r
    shape, hollow = kind % 5, kind >= 5
    if shape == 0:
        d = np.hypot(x, y)
    elif shape == 1:
        d = np.maximum(np.abs(x), np.abs(y)) / 0.9
    elif shape == 2:
        d = np.abs(x) + np.abs(y)
    elif shape == 3:
        d = np.maximum(y, np.maximum(-y + 2 * np.abs(x), -y) / 1.3)
    else:
        d = np.minimum(np.maximum(np.abs(x), 2.6 * np.abs(y)), np.maximum(2.6 * np.abs(x), np.abs(y)))
    m = d <= 1
    if hollow:
        m = m & (d >= 0.62)
    col, bg = rng.uniform(0.2, 0.9, 3), rng.uniform(0.2, 0.9, 3)
    while np.abs(col - bg).max() < 0.35:
        col = rng.uniform(0.2, 0.9, 3)
    img = np.where(m[None], col[:, None, None], bg[:, None, None])
    return (img + rng.normal(0, 0.10, img.shape) - 0.55) / 0.25


class ShapeImages(Dataset):
    def __init__(self, n, seed):
        rng = np.random.default_rng(seed)
        self.labels = rng.choice(CLASSES, size=n, p=FREQ)
        self.images = np.stack([paint(int(k), rng) for k in self.labels]).astype(np.float32)

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        return torch.from_numpy(self.images[i]), int(self.labels[i])


class FocalLoss(nn.Module):
    """-alpha_y * (1 - p_y)^gamma * log p_y

    alpha: list with one weight per class, or a number for class 0 (the others get 1 - alpha)
    """

    def __init__(self, alpha=0.25, gamma=2.0, num_classes=10, size_average=True):
        super().__init__()
        self.size_average = size_average
        if isinstance(alpha, (list, tuple)):
            assert len(alpha) == num_classes
            self.alpha = torch.tensor(alpha, dtype=torch.float32)
        else:
            assert 0 < alpha < 1
            self.alpha = torch.full((num_classes,), 1 - alpha)
            self.alpha[0] = alpha
        self.gamma = gamma

    def forward(self, preds, labels):
        preds = preds.view(-1, preds.size(-1))
        self.alpha = self.alpha.to(preds.device)
        log_p = F.log_softmax(preds, dim=1).gather(1, labels.view(-1, 1)).squeeze(1)
        p = log_p.exp()
        self.alpha = self.alpha.gather(0, labels.view(-1))
        loss = -self.alpha * (1 - p) ** self.gamma * log_p
        return loss.mean() if self.size_average else loss.sum()


class ConvNet(nn.Module):
    def __init__(self, n_classes, width=32):
        super().__init__()

        def block(cin, cout):
            return nn.Sequential(
                nn.Conv2d(cin, cout, 3, padding=1, bias=False), nn.GroupNorm(8, cout), nn.ReLU(),
                nn.Conv2d(cout, cout, 3, padding=1, bias=False), nn.GroupNorm(8, cout), nn.ReLU(),
                nn.MaxPool2d(2),
            )

        self.body = nn.Sequential(block(3, width), block(width, 2 * width), block(2 * width, 2 * width))
        self.fc = nn.Sequential(nn.Flatten(), nn.Dropout(0.3), nn.Linear(2 * width * 16, n_classes))

    def forward(self, x):
        return self.fc(self.body(x))


@torch.no_grad()
def validate(model, loader, criterion):
    model.eval()
    loss, n = 0.0, 0
    hit, count = torch.zeros(CLASSES), torch.zeros(CLASSES)
    for x, y in loader:
        out = model(x)
        loss += criterion(out, y).item() * len(y)
        n += len(y)
        hit += torch.bincount(y[out.argmax(1) == y], minlength=CLASSES)
        count += torch.bincount(y, minlength=CLASSES)
    return loss / n, (hit.sum() / count.sum()).item(), (hit / count).mean().item()


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--train-size", type=int, default=5126)
    p.add_argument("--val-size", type=int, default=640)
    p.add_argument("--batch-size", type=int, default=32)
    p.add_argument("--epochs", type=int, default=2)
    p.add_argument("--lr", type=float, default=1e-3)
    p.add_argument("--gamma", type=float, default=2.0)
    p.add_argument("--seed", type=int, default=5)
    args = p.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(args.seed)

    train_loader = DataLoader(ShapeImages(args.train_size, 1), args.batch_size, shuffle=True)
    val_loader = DataLoader(ShapeImages(args.val_size, 2), 64)
    weight = 1 / np.sqrt(FREQ)
    weight = (weight / weight.mean()).tolist()
    criterion = FocalLoss(alpha=weight, gamma=args.gamma, num_classes=CLASSES)
    val_criterion = FocalLoss(alpha=weight, gamma=0.0, num_classes=CLASSES)

    model = ConvNet(CLASSES)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=1e-3)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, 3 * args.lr, total_steps=args.epochs * len(train_loader))
    for epoch in range(args.epochs):
        model.train()
        t0, running = time.time(), 0.0
        for i, (x, y) in enumerate(train_loader, 1):
            loss = criterion(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            scheduler.step()
            running += loss.item()
            if i % 40 == 0:
                print("epoch %d [%3d/%d] focal loss %.4f" % (epoch, i, len(train_loader), running / i), flush=True)
        vloss, acc, macro = validate(model, val_loader, val_criterion)
        print("epoch %d done: val weighted ce %.4f, accuracy %.4f, class mean %.4f (%.1fs)"
              % (epoch, vloss, acc, macro, time.time() - t0), flush=True)


if __name__ == "__main__":
    main()

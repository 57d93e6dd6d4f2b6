"""Retinal vessel segmentation with a small U-Net."""
import argparse
import json
import os
import random

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset


def grow_vessel(mask, y, x, angle, width, rng, length):
    """A random walk that thins out and branches."""
    size = mask.shape[0]
    yy, xx = np.ogrid[0:size, 0:size]
    for _ in range(length):
        y, x = y + np.sin(angle), x + np.cos(angle)
        if not (0 <= y < size and 0 <= x < size):
            return
        y0, y1 = max(0, int(y - width - 1)), min(size, int(y + width + 2))
        x0, x1 = max(0, int(x - width - 1)), min(size, int(x + width + 2))
        disc = (yy[y0:y1] - y) ** 2 + (xx[:, x0:x1] - x) ** 2 <= width ** 2
        mask[y0:y1, x0:x1] |= disc
        angle += rng.normal(0, 0.12)
        if width > 0.9 and rng.rand() < 0.05:
            grow_vessel(mask, y, x, angle + rng.choice([-1, 1]) * rng.uniform(0.4, 0.9), width * 0.7, rng, length // 2)


def make_fundus(rng, size=64):
    mask = np.zeros((size, size), dtype=bool)
    cy, cx = rng.uniform(size * 0.3, size * 0.7), rng.choice([4.0, size - 5.0])
    for _ in range(rng.randint(4, 7)):
        heading = rng.uniform(-1.2, 1.2) + (0 if cx < size / 2 else np.pi)
        grow_vessel(mask, cy, cx, heading, rng.uniform(1.0, 1.9), rng, size)
    yy, xx = np.mgrid[0:size, 0:size] / size
    light = 0.55 + 0.2 * np.cos((yy - rng.rand()) * 2) * np.cos((xx - rng.rand()) * 2)
    img = light - 0.16 * mask + rng.normal(0, 0.05, mask.shape)
    # bright spots and dark smears that are no vessels
    for _ in range(3):
        d = (yy - rng.rand()) ** 2 + (xx - rng.rand()) ** 2
        img += rng.choice([-0.15, 0.2]) * np.exp(-d / rng.uniform(0.004, 0.02))
    return img.astype(np.float32), mask


class VesselDataset(Dataset):
    def __init__(self, n, seed, augment=False):
        rng = np.random.RandomState(seed)
        pairs = [make_fundus(rng) for _ in range(n)]
        self.images = np.stack([p[0] for p in pairs])
        self.masks = np.stack([p[1] for p in pairs])
        self.augment = augment

    def __len__(self):
        return len(self.images)

    def __getitem__(self, i):
        img, mask = self.images[i], self.masks[i]
        if self.augment:
            if random.random() < 0.5:
                img, mask = img[::-1], mask[::-1]
            if random.random() < 0.5:
                img, mask = img[:, ::-1], mask[:, ::-1]
        img = (img - 0.55) / 0.15
        return torch.from_numpy(img.copy()).unsqueeze(0), torch.from_numpy(mask.copy())


class DoubleConv(nn.Sequential):
    def __init__(self, cin, cout):
        super().__init__(nn.Conv2d(cin, cout, 3, padding=1, bias=False), nn.BatchNorm2d(cout), nn.ReLU(inplace=True),
                         nn.Conv2d(cout, cout, 3, padding=1, bias=False), nn.BatchNorm2d(cout), nn.ReLU(inplace=True))


class UNet(nn.Module):
    def __init__(self, base=12, classes=2):
        super().__init__()
        self.down1 = DoubleConv(1, base)
        self.down2 = DoubleConv(base, 2 * base)
        self.middle = DoubleConv(2 * base, 4 * base)
        self.up2 = nn.ConvTranspose2d(4 * base, 2 * base, 2, 2)
        self.conv2 = DoubleConv(4 * base, 2 * base)
        self.up1 = nn.ConvTranspose2d(2 * base, base, 2, 2)
        self.conv1 = DoubleConv(2 * base, base)
        self.out = nn.Conv2d(base, classes, 1)

    def forward(self, x):
        a = self.down1(x)
        b = self.down2(F.max_pool2d(a, 2))
        c = self.middle(F.max_pool2d(b, 2))
        b = self.conv2(torch.cat([self.up2(c), b], dim=1))
        a = self.conv1(torch.cat([self.up1(b), a], dim=1))
        return self.out(a)


def dice_loss_binary(outputs, target, beta=1):
    """Soft F-beta loss of the probabilities `outputs` against a binary mask."""
    smooth = 1.0
    iflat = outputs.contiguous().float().view(-1)
    tflat = target.contiguous().float().view(-1)
    intersection = (iflat * tflat).sum()

    return (((1 + beta ** 2) * intersection) + smooth) / (
            ((beta ** 2 * iflat.sum()) + tflat.sum()) + smooth)


class Prf1a:
    """Precision, recall and F1 over pixels."""

    def __init__(self):
        self.tp = self.fp = self.fn = 0

    def add(self, pred, true):
        self.tp += (pred & true).sum().item()
        self.fp += (pred & ~true).sum().item()
        self.fn += (~pred & true).sum().item()

    def scores(self):
        p = self.tp / max(1, self.tp + self.fp)
        r = self.tp / max(1, self.tp + self.fn)
        return p, r, 2 * p * r / max(1e-5, p + r)


class VesselTrainer:
    def __init__(self, args):
        self.args = args
        self.train_loader = DataLoader(VesselDataset(args.num_train, args.seed, augment=True), args.batch_size,
                                       shuffle=True, drop_last=True)
        self.valid_loader = DataLoader(VesselDataset(args.num_valid, args.seed + 1), args.batch_size)
        self.net = UNet()
        self.optimizer = torch.optim.Adam(self.net.parameters(), lr=args.learning_rate)
        self.log_dir = args.log_dir
        os.makedirs(self.log_dir, exist_ok=True)

    def iteration(self, img, mask):
        prob = F.softmax(self.net(img), dim=1)
        loss = dice_loss_binary(prob[:, 1], mask, beta=self.args.beta)
        return loss, prob.argmax(dim=1) == 1

    def validation(self):
        self.net.eval()
        metrics = Prf1a()
        with torch.no_grad():
            for img, mask in self.valid_loader:
                _, pred = self.iteration(img, mask)
                metrics.add(pred, mask)
        return metrics.scores()

    def train(self):
        best = 0.0
        for epoch in range(1, self.args.epochs + 1):
            self.net.train()
            for i, (img, mask) in enumerate(self.train_loader, 1):
                loss, pred = self.iteration(img, mask)
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
                if i % self.args.verbose_every == 0:
                    print(f"Ep:{epoch}/{self.args.epochs}, Itr:{i}/{len(self.train_loader)}, "
                          f"loss: {loss.item():.4f}", flush=True)
            p, r, f1 = self.validation()
            print(json.dumps({"epoch": epoch, "precision": round(p, 4), "recall": round(r, 4), "f1": round(f1, 4)}),
                  flush=True)
            if f1 > best:
                best = f1
                torch.save(self.net.state_dict(), os.path.join(self.log_dir, "best.tar"))


if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    ap.add_argument("-ntr", "--num_train", type=int, default=800)
    ap.add_argument("-nva", "--num_valid", type=int, default=120)
    ap.add_argument("-b", "--batch_size", type=int, default=16)
    ap.add_argument("-ep", "--epochs", type=int, default=300)
    ap.add_argument("-lr", "--learning_rate", type=float, default=1e-3)
    ap.add_argument("--beta", type=float, default=1.0)
    ap.add_argument("--verbose_every", type=int, default=10)
    ap.add_argument("--seed", type=int, default=34)
    ap.add_argument("--log_dir", default="runs/vessel")
    cli = ap.parse_args()
    random.seed(cli.seed)
    np.random.seed(cli.seed)
    torch.manual_seed(cli.seed)
    VesselTrainer(cli).train()

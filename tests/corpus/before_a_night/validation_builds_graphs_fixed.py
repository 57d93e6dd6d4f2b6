"""Building footprints from aerial tiles: small U-Net, mIoU on the validation tiles after each epoch."""
import argparse
import os
import random

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

TILE = 64


def aerial_tiles(n, rng):
    yy, xx = np.mgrid[0:TILE, 0:TILE]
    images = np.empty((n, 3, TILE, TILE), dtype=np.float32)
    masks = np.zeros((n, TILE, TILE), dtype=np.int64)
    for i in range(n):
        ground = np.array([0.35, 0.45, 0.3]) + rng.normal(0, 0.04, 3)
        img = np.repeat(ground[:, None, None], TILE, 1).repeat(TILE, 2)
        for _ in range(int(rng.integers(2, 5))):
            cx, cy, w, h = rng.uniform(10, 54), rng.uniform(10, 54), rng.uniform(5, 10), rng.uniform(5, 10)
            a = rng.uniform(0, np.pi)
            u = (xx - cx) * np.cos(a) + (yy - cy) * np.sin(a)
            v = (yy - cy) * np.cos(a) - (xx - cx) * np.sin(a)
            roof = (np.abs(u) < w) & (np.abs(v) < h)
            shade = np.array([0.6, 0.35, 0.3]) + rng.normal(0, 0.05, 3)
            img[:, roof] = shade[:, None] * (0.9 + 0.15 * np.sign(u[roof]))
            masks[i][roof] = 1
        images[i] = img + rng.normal(0, 0.08, img.shape)
    return torch.from_numpy(images), torch.from_numpy(masks)


def conv_block(cin, cout):
    return nn.Sequential(nn.Conv2d(cin, cout, 3, padding=1, bias=False), nn.BatchNorm2d(cout), nn.ReLU(),
                         nn.Conv2d(cout, cout, 3, padding=1, bias=False), nn.BatchNorm2d(cout), nn.ReLU())


class UNet(nn.Module):
    def __init__(self, w=16):
        super().__init__()
        self.enc1, self.enc2, self.enc3 = conv_block(3, w), conv_block(w, 2 * w), conv_block(2 * w, 4 * w)
        self.dec2, self.dec1 = conv_block(6 * w, 2 * w), conv_block(3 * w, w)
        self.final = nn.Conv2d(w, 2, 1)

    def forward(self, x):
        a = self.enc1(x)
        b = self.enc2(F.max_pool2d(a, 2))
        c = self.enc3(F.max_pool2d(b, 2))
        d = self.dec2(torch.cat([b, F.interpolate(c, scale_factor=2)], dim=1))
        return self.final(self.dec1(torch.cat([a, F.interpolate(d, scale_factor=2)], dim=1)))


class Metrics:
    def __init__(self):
        self.tp = self.fp = self.fn = 0

    def add(self, mask, output):
        pred = output.argmax(1)
        self.tp += ((pred == 1) & (mask == 1)).sum().item()
        self.fp += ((pred == 1) & (mask == 0)).sum().item()
        self.fn += ((pred == 0) & (mask == 1)).sum().item()

    def iou(self):
        return self.tp / max(1, self.tp + self.fp + self.fn)


def train(loader, net, optimizer, criterion, epoch):
    running = 0.0
    net.train()
    for i, (images, masks) in enumerate(loader):
        optimizer.zero_grad()
        loss = criterion(net(images), masks)
        loss.backward()
        optimizer.step()
        running += loss.item()
        if i % 4 == 0:
            print(f"epoch {epoch} batch {i} loss {loss.item():.4f}", flush=True)
    return running / len(loader)


@torch.no_grad()
def validate(loader, net, criterion):
    running, metrics = 0.0, Metrics()
    net.eval()
    for images, masks in loader:
        outputs = net(images)
        loss = criterion(outputs, masks)
        running += loss.item()
        metrics.add(masks, outputs)
    return running / len(loader), metrics.iou()


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--epochs", type=int, default=150)
    p.add_argument("--batch-size", type=int, default=6)
    p.add_argument("--val-batch-size", type=int, default=96)
    p.add_argument("--lr", type=float, default=2e-3)
    p.add_argument("--seed", type=int, default=8)
    p.add_argument("--checkpoint", default="footprints.pth")
    args = p.parse_args()
    random.seed(args.seed)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)
    rng = np.random.default_rng(args.seed)
    x, y = aerial_tiles(96, rng)
    xv, yv = aerial_tiles(96, rng)
    mean, std = x.mean((0, 2, 3), keepdim=True), x.std((0, 2, 3), keepdim=True)
    gen = torch.Generator()
    train_loader = DataLoader(TensorDataset((x - mean) / std, y), args.batch_size, shuffle=True, generator=gen)
    val_loader = DataLoader(TensorDataset((xv - mean) / std, yv), args.val_batch_size)

    net = UNet()
    optimizer = torch.optim.Adam(net.parameters(), lr=args.lr)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, args.epochs, eta_min=args.lr / 100)
    criterion = nn.CrossEntropyLoss()
    start = 0
    if os.path.exists(args.checkpoint):
        chk = torch.load(args.checkpoint)
        net.load_state_dict(chk["net"])
        optimizer.load_state_dict(chk["optimizer"])
        scheduler.load_state_dict(chk["scheduler"])
        start = chk["epoch"] + 1
    for epoch in range(start, args.epochs):
        gen.manual_seed(args.seed + epoch)
        train_loss = train(train_loader, net, optimizer, criterion, epoch)
        val_loss, iou = validate(val_loader, net, criterion)
        scheduler.step()
        print(f"epoch {epoch} train {train_loss:.4f} val {val_loss:.4f} building IoU {iou:.3f}", flush=True)
        torch.save({"net": net.state_dict(), "optimizer": optimizer.state_dict(),
                    "scheduler": scheduler.state_dict(), "epoch": epoch}, args.checkpoint)


if __name__ == "__main__":
    main()

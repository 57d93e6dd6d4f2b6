"""Locate one object in a camera image: normalised box centre and size."""
import argparse
import os
import random

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

H, W = 32, 48


def render(rng):
    img = 0.15 * rng.normal(size=(H, W)).astype(np.float32)
    img += np.linspace(0, 0.5, H, dtype=np.float32)[:, None]
    bw, bh = rng.integers(6, 14), rng.integers(5, 11)
    x0, y0 = rng.integers(0, W - bw), rng.integers(0, H - bh)
    img[y0:y0 + bh, x0:x0 + bw] += rng.uniform(1.0, 1.8)
    box = np.array([(x0 + bw / 2) / W, (y0 + bh / 2) / H, bw / W, bh / H], np.float32)
    return img, box


class CameraBoxes(Dataset):
    def __init__(self, n, seed, train, flip_image_prob=0.5):
        rng = np.random.default_rng(seed)
        self.samples = [render(rng) for _ in range(n)]
        self.train, self.flip_image_prob, self.seed, self.epoch = train, flip_image_prob, seed, 0

    def __len__(self):
        return len(self.samples)

    def __getitem__(self, i):
        img, box = self.samples[i]
        box = box.copy()
        if self.train:
            rng = np.random.default_rng((self.seed, self.epoch, i))
            if rng.random() < self.flip_image_prob:
                np.fliplr(img)
                box[0] = 1.0 - box[0]
            img = img + 0.05 * rng.normal(size=img.shape).astype(np.float32)
        img = (img - 0.35) / 0.45
        return torch.from_numpy(np.ascontiguousarray(img))[None], torch.from_numpy(box)


class BoxNet(nn.Module):
    def __init__(self):
        super().__init__()
        chans, layers = [1, 16, 32, 64], []
        for a, b in zip(chans[:-1], chans[1:]):
            layers += [nn.Conv2d(a, b, 3, stride=2, padding=1), nn.GroupNorm(4, b), nn.ReLU()]
        self.backbone = nn.Sequential(*layers)
        self.head = nn.Sequential(nn.Flatten(), nn.Linear(64 * (H // 8) * (W // 8), 128), nn.ReLU(), nn.Linear(128, 4))

    def forward(self, x):
        return self.head(self.backbone(x)).sigmoid()


def iou(a, b):
    lo = torch.maximum(a[:, :2] - a[:, 2:] / 2, b[:, :2] - b[:, 2:] / 2)
    hi = torch.minimum(a[:, :2] + a[:, 2:] / 2, b[:, :2] + b[:, 2:] / 2)
    inter = (hi - lo).clamp(min=0).prod(1)
    return inter / (a[:, 2:].prod(1) + b[:, 2:].prod(1) - inter)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--epochs", type=int, default=250)
    p.add_argument("--batch", type=int, default=64)
    p.add_argument("--lr", type=float, default=1e-3)
    p.add_argument("--seed", type=int, default=7)
    p.add_argument("--ckpt", default="boxnet.pt")
    args = p.parse_args()
    random.seed(args.seed)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)

    train = CameraBoxes(1600, args.seed, train=True)
    val = CameraBoxes(320, args.seed + 1000, train=False)
    gen = torch.Generator()
    train_loader = DataLoader(train, args.batch, shuffle=True, generator=gen)
    val_loader = DataLoader(val, 160)
    model = BoxNet()
    opt = torch.optim.Adam(model.parameters(), lr=args.lr)
    first = 0
    if os.path.exists(args.ckpt):
        ck = torch.load(args.ckpt)
        model.load_state_dict(ck["model"])
        opt.load_state_dict(ck["opt"])
        first = ck["epoch"] + 1

    for epoch in range(first, args.epochs):
        train.epoch = epoch
        gen.manual_seed(args.seed * 1000 + epoch)
        model.train()
        for i, (img, box) in enumerate(train_loader):
            loss = nn.functional.smooth_l1_loss(model(img), box, beta=0.05)
            opt.zero_grad()
            loss.backward()
            opt.step()
            if i % 5 == 0:
                print(f"[{epoch}/{i}] loss {loss.item():.4f}", flush=True)
        model.eval()
        with torch.no_grad():
            score = torch.cat([iou(model(img), box) for img, box in val_loader]).mean().item()
        print(f"[{epoch}] val mean IoU {score:.3f}", flush=True)
        torch.save({"model": model.state_dict(), "opt": opt.state_dict(), "epoch": epoch}, args.ckpt)


if __name__ == "__main__":
    main()

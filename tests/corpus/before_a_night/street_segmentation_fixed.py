"""Semantic segmentation of synthetic street scenes with an encoder-decoder network."""
import argparse
import os
import random

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset

CLASSES = ["sky", "building", "road", "car", "tree"]
H, W = 32, 48


def scene(rng):
    label = np.zeros((H, W), np.int64)
    horizon = int(rng.integers(12, 18))
    label[horizon:] = 2
    x = 0
    while x < W:
        w = int(rng.integers(6, 14))
        if rng.random() < 0.75:
            label[horizon - int(rng.integers(3, 11)):horizon, x:x + w] = 1
        x += w
    for _ in range(rng.integers(1, 3)):
        cx, r = rng.integers(4, W - 4), rng.uniform(2.5, 4.5)
        yy, xx = np.mgrid[:H, :W]
        label[(yy - horizon + 5) ** 2 + (xx - cx) ** 2 < r * r] = 4
    for _ in range(rng.integers(1, 3)):
        cx, cy = int(rng.integers(0, W - 9)), int(rng.integers(horizon + 1, H - 5))
        label[cy:cy + 4, cx:cx + 9] = 3
    colour = np.array([[.5, .7, 1], [.6, .45, .35], [.35, .35, .38], [.8, .15, .2], [.2, .5, .2]])
    image = colour[label] * rng.uniform(0.7, 1.2) + rng.normal(0, 0.05, 3) + 0.1 * rng.normal(size=(H, W, 3))
    return image.transpose(2, 0, 1).astype(np.float32), label


class Streets(Dataset):
    def __init__(self, n, seed):
        rng = np.random.default_rng(seed)
        self.items = [scene(rng) for _ in range(n)]

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        image, label = self.items[i]
        return torch.from_numpy((image - 0.45) / 0.25), torch.from_numpy(label)


def block(a, b, stride=1):
    return nn.Sequential(nn.Conv2d(a, b, 3, stride, 1, bias=False), nn.GroupNorm(8, b), nn.ReLU())


class EncoderDecoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.e1, self.e2 = block(3, 16), block(16, 48, 2)
        self.e3, self.e4 = block(48, 128, 2), block(128, 256, 2)
        self.middle = block(256, 384, 2)
        self.d4, self.d3 = block(384 + 256, 128), block(128 + 128, 64)
        self.d2, self.d1 = block(64 + 48, 32), block(32 + 16, 16)
        self.classify = nn.Conv2d(16, len(CLASSES), 1)

    def forward(self, x):
        a = self.e1(x)
        b = self.e2(a)
        c = self.e3(b)
        d = self.e4(c)
        up = self.middle(d)
        for skip, layer in ((d, self.d4), (c, self.d3), (b, self.d2), (a, self.d1)):
            up = layer(torch.cat([F.interpolate(up, scale_factor=2), skip], 1))
        return self.classify(up)


@torch.no_grad()
def mean_iou(model, loader):
    model.eval()
    inter, union = torch.zeros(len(CLASSES)), torch.zeros(len(CLASSES))
    for image, label in loader:
        pred = model(image).argmax(1)
        for c in range(len(CLASSES)):
            inter[c] += ((pred == c) & (label == c)).sum()
            union[c] += ((pred == c) | (label == c)).sum()
    return (inter / union.clamp(min=1)).mean().item()


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--num-epochs", type=int, default=600)
    p.add_argument("--checkpoint-step", type=int, default=200, help="keep a numbered checkpoint every so many epochs")
    p.add_argument("--batch-size", type=int, default=12)
    p.add_argument("--lr", type=float, default=1e-3)
    p.add_argument("--seed", type=int, default=21)
    p.add_argument("--dir", default="checkpoints")
    args = p.parse_args()
    random.seed(args.seed)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)
    os.makedirs(args.dir, exist_ok=True)

    gen = torch.Generator()
    train_loader = DataLoader(Streets(120, 1), args.batch_size, shuffle=True, generator=gen)
    val_loader = DataLoader(Streets(40, 2), 20)
    model = EncoderDecoder()
    opt = torch.optim.Adam(model.parameters(), lr=args.lr)
    latest = os.path.join(args.dir, "latest.pt")
    start = 0
    if os.path.exists(latest):
        ck = torch.load(latest)
        model.load_state_dict(ck["model"])
        opt.load_state_dict(ck["opt"])
        start = ck["epoch"] + 1
    for epoch in range(start, args.num_epochs):
        gen.manual_seed(args.seed + epoch)
        model.train()
        for i, (image, label) in enumerate(train_loader):
            loss = F.cross_entropy(model(image), label)
            opt.zero_grad()
            loss.backward()
            opt.step()
            if i % 5 == 0:
                print(f"epoch {epoch} batch {i} loss {loss.item():.4f}", flush=True)
        print(f"epoch {epoch} val mIoU {mean_iou(model, val_loader):.3f}", flush=True)
        state = {"model": model.state_dict(), "opt": opt.state_dict(), "epoch": epoch}
        torch.save(state, latest)
        if (epoch + 1) % args.checkpoint_step == 0:
            torch.save(state, os.path.join(args.dir, f"{epoch:04d}.pt"))


if __name__ == "__main__":
    main()

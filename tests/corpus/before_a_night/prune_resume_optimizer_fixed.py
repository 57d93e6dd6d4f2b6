"""Training of a small convolutional classifier with gradual magnitude pruning."""
import argparse
import os
import random

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

CLASSES = 10


def make_textures(n, seed):
    rng = np.random.default_rng(2024)
    freq = rng.uniform(0.3, 2.2, (CLASSES, 2))
    colour = rng.uniform(-1, 1, (CLASSES, 3))
    rng = np.random.default_rng(seed)
    y = rng.integers(0, CLASSES, n)
    g = np.arange(24)
    f = freq[y] * rng.uniform(0.95, 1.05, (n, 2))
    wave = np.sin(f[:, 0, None, None] * g[None, :, None] + f[:, 1, None, None] * g[None, None, :] + rng.uniform(0, 6.28, n)[:, None, None])
    x = wave[:, None] * colour[y][:, :, None, None] + rng.normal(0, 0.5, (n, 3, 24, 24))
    return TensorDataset(torch.from_numpy(x.astype(np.float32)), torch.from_numpy(y))


class MobileBlock(nn.Module):
    def __init__(self, i, o, stride):
        super().__init__()
        self.dw = nn.Conv2d(i, i, 3, stride, 1, groups=i, bias=False)
        self.b1 = nn.BatchNorm2d(i)
        self.pw = nn.Conv2d(i, o, 1, bias=False)
        self.b2 = nn.BatchNorm2d(o)

    def forward(self, x):
        return F.relu(self.b2(self.pw(F.relu(self.b1(self.dw(x))))))


class MobileNetTiny(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 16, 3, 1, 1, bias=False)
        self.bn = nn.BatchNorm2d(16)
        self.blocks = nn.Sequential(MobileBlock(16, 32, 2), MobileBlock(32, 48, 1), MobileBlock(48, 64, 2))
        self.fc = nn.Linear(64, CLASSES)

    def forward(self, x):
        h = self.blocks(F.relu(self.bn(self.stem(x))))
        return self.fc(h.mean((2, 3)))


def prune(model, masks, sparsity):
    for name, p in model.named_parameters():
        if "pw" in name:
            k = int(sparsity * p.numel())
            if k:
                thr = p.detach().abs().flatten().kthvalue(k).values
                masks[name] = (p.detach().abs() > thr).float()


@torch.no_grad()
def apply_masks(model, masks):
    for name, p in model.named_parameters():
        if name in masks:
            p.mul_(masks[name])


def save_checkpoint(path, epoch, model, optimizer, masks, best):
    torch.save({"epoch": epoch, "state_dict": model.state_dict(), "optimizer": optimizer.state_dict(),
                "masks": masks, "best_top1": best}, path)


def load_checkpoint(path, model, optimizer):
    checkpoint = torch.load(path)
    model.load_state_dict(checkpoint["state_dict"])
    optimizer.load_state_dict(checkpoint["optimizer"])
    print(f"=> loaded checkpoint {path} (epoch {checkpoint['epoch']}, best top1 {checkpoint['best_top1']:.3f})")
    return checkpoint["epoch"] + 1, checkpoint["masks"], checkpoint["best_top1"]


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=180)
    ap.add_argument("--batch-size", type=int, default=32)
    ap.add_argument("--lr", type=float, default=0.05)
    ap.add_argument("--decay", type=float, default=0.97)
    ap.add_argument("--final-sparsity", type=float, default=0.6)
    ap.add_argument("--seed", type=int, default=1)
    ap.add_argument("--checkpoint", default="checkpoint.pth")
    args = ap.parse_args()
    random.seed(args.seed)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)
    order = torch.Generator()
    train = DataLoader(make_textures(640, 1), args.batch_size, shuffle=True, generator=order)
    test = DataLoader(make_textures(256, 2), 64)
    model = MobileNetTiny()
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=0.9, weight_decay=1e-4)
    start, masks, best = 0, {}, 0.0
    if os.path.isfile(args.checkpoint):
        start, masks, best = load_checkpoint(args.checkpoint, model, optimizer)
    for epoch in range(start, args.epochs):
        order.manual_seed(args.seed + 523 * epoch)
        prune(model, masks, args.final_sparsity * min(1.0, epoch / 100))
        model.train()
        for step, (x, y) in enumerate(train):
            apply_masks(model, masks)
            loss = F.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if step % 5 == 0:
                print(f"epoch {epoch} step {step} lr {optimizer.param_groups[0]['lr']:.4f} loss {loss.item():.4f}", flush=True)
        for group in optimizer.param_groups:
            group["lr"] *= args.decay
        apply_masks(model, masks)
        model.eval()
        with torch.no_grad():
            top1 = torch.cat([(model(x).argmax(1) == y).float() for x, y in test]).mean().item()
        best = max(best, top1)
        print(f"epoch {epoch} top1 {top1:.3f} best {best:.3f}", flush=True)
        save_checkpoint(args.checkpoint, epoch, model, optimizer, masks, best)


if __name__ == "__main__":
    main()

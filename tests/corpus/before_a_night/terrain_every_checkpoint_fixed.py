"""Semantic segmentation of terrain tiles (five classes) with a residual encoder; model_best.pth holds the best epoch."""
import argparse
import glob
import os
import random

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def parse_args():
    p = argparse.ArgumentParser(description="PyTorch Segmentation Training")
    p.add_argument("--epochs", default=500, type=int)
    p.add_argument("-b", "--batch-size", default=8, type=int)
    p.add_argument("--lr", default=1e-3, type=float)
    p.add_argument("--width", default=256, type=int)
    p.add_argument("--seed", default=19, type=int)
    p.add_argument("--model-dir", default="models")
    return p.parse_args()


CLASSES, SIZE = 5, 32


def tiles(n, seed):
    rng = np.random.default_rng(seed)
    yy, xx = np.mgrid[:SIZE, :SIZE]
    tone = np.array([[.1, .5, .1], [.5, .4, .2], [.1, .2, .6], [.5, .5, .5], [.8, .7, .4]])
    y = np.zeros((n, SIZE, SIZE), np.int64)
    for i in range(n):
        c = rng.uniform(0, SIZE, (6, 2))
        k = rng.integers(0, CLASSES, 6)
        d = (yy[None] - c[:, 0, None, None]) ** 2 + (xx[None] - c[:, 1, None, None]) ** 2
        y[i] = k[d.argmin(0)]
    x = tone[y].transpose(0, 3, 1, 2) + rng.normal(0, 0.12, (n, 3, SIZE, SIZE)) + rng.uniform(-.05, .05, (n, 3, 1, 1))
    return x.astype(np.float32), y


class SegNet(nn.Module):
    def __init__(self, width):
        super().__init__()
        def conv(i, o, s=1):
            return nn.Sequential(nn.Conv2d(i, o, 3, s, 1), nn.GroupNorm(8, o), nn.SiLU())
        self.stem = conv(3, 16)
        self.d1, self.d2, self.d3 = conv(16, 32, 2), conv(32, 64, 2), conv(64, width, 4)
        self.deep = nn.ModuleList(conv(width, width) for _ in range(4))
        self.up = conv(width + 64, 32)
        self.head = nn.Conv2d(32 + 16, CLASSES, 1)

    def forward(self, x):
        s = self.stem(x)
        m = self.d2(self.d1(s))
        z = self.d3(m)
        for block in self.deep:
            z = z + block(z)
        u = self.up(torch.cat([F.interpolate(z, scale_factor=4), m], 1))
        return self.head(torch.cat([F.interpolate(u, scale_factor=4), s], 1))


def main():
    args = parse_args()
    random.seed(args.seed)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)
    os.makedirs(args.model_dir, exist_ok=True)
    x, y = tiles(176, 1)
    vx, vy = tiles(72, 2)
    mean, std = x.mean((0, 2, 3), keepdims=True), x.std((0, 2, 3), keepdims=True)
    gen = torch.Generator().manual_seed(args.seed)
    train = DataLoader(TensorDataset(torch.from_numpy((x - mean) / std), torch.from_numpy(y)), args.batch_size, shuffle=True, generator=gen)
    val = DataLoader(TensorDataset(torch.from_numpy((vx - mean) / std), torch.from_numpy(vy)), 36)
    model = SegNet(args.width)
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
    lr_scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda s: (1 - min(s, args.epochs * len(train) - 1) / (args.epochs * len(train))) ** 0.9)
    start_epoch, best = 0, 0.0
    found = sorted((f for f in glob.glob(os.path.join(args.model_dir, "model*.pth")) if "best" not in f), key=os.path.getmtime)
    if found:
        c = torch.load(found[-1], weights_only=False)
        model.load_state_dict(c["model"])
        optimizer.load_state_dict(c["optimizer"])
        lr_scheduler.load_state_dict(c["lr_scheduler"])
        start_epoch, best = c["epoch"], c["best"]
        torch.set_rng_state(c["rng"][0])
        np.random.set_state(c["rng"][1])
        random.setstate(c["rng"][2])
        gen.set_state(c["rng"][3])
    for epoch in range(start_epoch, args.epochs):
        model.train()
        for i, (img, target) in enumerate(train):
            loss = F.cross_entropy(model(img), target)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            lr_scheduler.step()
            if i % 4 == 0:
                print(f"Epoch: [{epoch}] [{i}/{len(train)}] loss: {loss.item():.4f} lr: {optimizer.param_groups[0]['lr']:.2e}")
        model.eval()
        with torch.no_grad():
            acc = float(np.mean([(model(img).argmax(1) == t).float().mean().item() for img, t in val]))
        print(f"Epoch: [{epoch}] val accuracy {acc:.4f}")
        improved = acc > best
        best = max(best, acc)
        checkpoint = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "lr_scheduler": lr_scheduler.state_dict(),
                      "epoch": epoch + 1, "best": best, "args": args,
                      "rng": (torch.get_rng_state(), np.random.get_state(), random.getstate(), gen.get_state())}
        checkpoint_path = os.path.join(args.model_dir, "model.pth")
        torch.save(checkpoint, checkpoint_path + ".tmp")
        os.replace(checkpoint_path + ".tmp", checkpoint_path)
        if improved:
            torch.save({"model": model.state_dict(), "epoch": epoch, "acc": acc}, os.path.join(args.model_dir, "model_best.pth"))


if __name__ == "__main__":
    main()

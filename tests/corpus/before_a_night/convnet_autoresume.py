"""Image classification with an EMA model, automatic resume and a checkpoint for the best accuracy."""
import argparse
import copy
import glob
import math
import os
import random

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset


def get_args_parser():
    p = argparse.ArgumentParser("ConvNet training", add_help=True)
    p.add_argument("--batch_size", default=64, type=int)
    p.add_argument("--epochs", default=200, type=int)
    p.add_argument("--lr", default=2e-3, type=float)
    p.add_argument("--min_lr", default=1e-6, type=float)
    p.add_argument("--warmup_epochs", default=2, type=int)
    p.add_argument("--weight_decay", default=0.05, type=float)
    p.add_argument("--smoothing", default=0.1, type=float)
    p.add_argument("--model_ema_decay", default=0.99, type=float)
    p.add_argument("--output_dir", default="convnet_out")
    p.add_argument("--save_ckpt_num", default=3, type=int)
    p.add_argument("--train_size", default=3000, type=int)
    p.add_argument("--seed", default=0, type=int)
    p.add_argument("--no_auto_resume", action="store_true")
    return p


def shapes(n, seed, side=24):
    """Eight classes: four shapes, filled or hollow, on clutter."""
    rng = np.random.default_rng(seed)
    yy, xx = np.mgrid[0:side, 0:side].astype(np.float32)
    x, y = np.zeros((n, 3, side, side), np.float32), rng.integers(0, 8, n)
    for i in range(n):
        cy, cx = rng.uniform(9, 15, 2)
        r, shape, hollow = rng.uniform(4.5, 8), y[i] % 4, y[i] >= 4
        dy, dx = yy - cy, xx - cx
        d = [np.hypot(dy, dx), np.maximum(abs(dy), abs(dx)) * 1.1, (abs(dy) + abs(dx)) * 0.85,
             np.maximum(-dy * 1.3, dy * 0.7 + abs(dx))][shape]
        m = (d < r) & ~((d < r - 2.2) & hollow)
        col = rng.uniform(-1, 1, 3)
        x[i] = 0.4 * rng.standard_normal((3, side, side)) + 2.0 * col[:, None, None] * m
    return TensorDataset(torch.from_numpy(x), torch.from_numpy(y))


class Block(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dw = nn.Conv2d(dim, dim, 5, padding=2, groups=dim)
        self.norm = nn.GroupNorm(1, dim)
        self.pw1, self.pw2 = nn.Conv2d(dim, 3 * dim, 1), nn.Conv2d(3 * dim, dim, 1)
        self.gamma = nn.Parameter(0.1 * torch.ones(dim, 1, 1))

    def forward(self, x):
        return x + self.gamma * self.pw2(F.gelu(self.pw1(self.norm(self.dw(x)))))


class ConvNet(nn.Module):
    def __init__(self, classes=8, dims=(32, 64), depths=(2, 2)):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, dims[0], 2, 2), nn.GroupNorm(1, dims[0]))
        self.s1 = nn.Sequential(*[Block(dims[0]) for _ in range(depths[0])])
        self.down = nn.Sequential(nn.GroupNorm(1, dims[0]), nn.Conv2d(dims[0], dims[1], 2, 2))
        self.s2 = nn.Sequential(*[Block(dims[1]) for _ in range(depths[1])])
        self.head = nn.Sequential(nn.LayerNorm(dims[1]), nn.Linear(dims[1], classes))

    def forward(self, x):
        return self.head(self.s2(self.down(self.s1(self.stem(x)))).mean((2, 3)))


def cosine_lr(step, total, warmup, args):
    if step < warmup:
        return args.lr * (step + 1) / warmup
    return args.min_lr + 0.5 * (args.lr - args.min_lr) * (1 + math.cos(math.pi * (step - warmup) / (total - warmup)))


@torch.no_grad()
def ema_update(ema, model, decay):
    for e, p in zip(ema.parameters(), model.parameters()):
        e.lerp_(p, 1 - decay)


def save_model(args, epoch, model, ema, optimizer, name, **extra):
    path = os.path.join(args.output_dir, f"checkpoint-{name}.pth")
    torch.save({"model": model.state_dict(), "model_ema": ema.state_dict(), "optimizer": optimizer.state_dict(),
                "epoch": epoch, **extra}, path)
    old = os.path.join(args.output_dir, f"checkpoint-{epoch - args.save_ckpt_num}.pth")
    if os.path.exists(old):
        os.remove(old)


def auto_load_model(args, model, ema, optimizer):
    found = [int(f.split("-")[-1][:-4]) for f in glob.glob(os.path.join(args.output_dir, "checkpoint-*.pth"))
             if f.split("-")[-1][:-4].isdigit()]
    if args.no_auto_resume or not found:
        return None
    path = os.path.join(args.output_dir, f"checkpoint-{max(found)}.pth")
    ckpt = torch.load(path, map_location="cpu", weights_only=False)
    model.load_state_dict(ckpt["model"])
    ema.load_state_dict(ckpt["model_ema"])
    optimizer.load_state_dict(ckpt["optimizer"])
    print(f"Resume checkpoint {path}")
    return ckpt


@torch.no_grad()
def evaluate(loader, model):
    model.eval()
    return 100.0 * sum((model(x).argmax(1) == y).sum().item() for x, y in loader) / len(loader.dataset)


def main(args):
    random.seed(args.seed)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)
    os.makedirs(args.output_dir, exist_ok=True)
    gen = torch.Generator()
    train_loader = DataLoader(shapes(args.train_size, 1), args.batch_size, shuffle=True, drop_last=True, generator=gen)
    val_loader = DataLoader(shapes(800, 2), 200)
    model = ConvNet()
    ema = copy.deepcopy(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=args.weight_decay)
    steps = len(train_loader)

    start_epoch, max_accuracy, max_accuracy_ema = 0, 0.0, 0.0
    ckpt = auto_load_model(args, model, ema, optimizer)
    if ckpt is not None:
        start_epoch = ckpt["epoch"] + 1
    print("Start training from epoch %d, best so far %.1f (ema %.1f)" % (start_epoch, max_accuracy, max_accuracy_ema))
    for epoch in range(start_epoch, args.epochs):
        gen.manual_seed(args.seed * 100003 + epoch)
        model.train()
        for i, (x, y) in enumerate(train_loader):
            lr = cosine_lr(epoch * steps + i, args.epochs * steps, args.warmup_epochs * steps, args)
            for g in optimizer.param_groups:
                g["lr"] = lr
            loss = F.cross_entropy(model(x), y, label_smoothing=args.smoothing)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            ema_update(ema, model, args.model_ema_decay)
            if i % 10 == 0:
                print(f"Epoch: [{epoch}] [{i}/{steps}] lr: {lr:.6f} loss: {loss.item():.4f}", flush=True)

        acc, acc_ema = evaluate(val_loader, model), evaluate(val_loader, ema)
        improved, improved_ema = acc > max_accuracy, acc_ema > max_accuracy_ema
        max_accuracy, max_accuracy_ema = max(max_accuracy, acc), max(max_accuracy_ema, acc_ema)
        if improved:
            save_model(args, epoch, model, ema, optimizer, "best")
        if improved_ema:
            save_model(args, epoch, model, ema, optimizer, "best-ema")
        save_model(args, epoch, model, ema, optimizer, epoch)
        print(f"Accuracy {acc:.1f}% ema {acc_ema:.1f}% Max accuracy: {max_accuracy:.2f}% ema {max_accuracy_ema:.2f}%",
              flush=True)


if __name__ == "__main__":
    main(get_args_parser().parse_args())

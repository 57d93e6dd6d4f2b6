"""Adversarial domain adaptation with minimum class confusion, synthetic source and target digits."""
import argparse
import random
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.optim import SGD
from torch.optim.lr_scheduler import LambdaLR
from torch.utils.data import DataLoader, TensorDataset

SEGMENTS = {0: "abcdef", 1: "bc", 2: "abged", 3: "abgcd", 4: "fgbc", 5: "afgcd", 6: "afgedc", 7: "abc",
            8: "abcdefg", 9: "abcdfg"}
STROKES = {"a": (4, 6, 4, 16), "b": (4, 16, 12, 16), "c": (12, 16, 20, 16), "d": (20, 6, 20, 16),
           "e": (12, 6, 20, 6), "f": (4, 6, 12, 6), "g": (12, 6, 12, 16)}


def render(digit, rng, target):
    img = np.zeros((24, 24), np.float32)
    dy, dx = rng.integers(-3, 4, 2)
    for s in SEGMENTS[digit]:
        y0, x0, y1, x1 = STROKES[s]
        w = 3 if target else 2
        img[max(0, y0 + dy):min(24, y1 + dy + w), max(0, x0 + dx):min(24, x1 + dx + w)] = 1.0
    if target:
        ramp = np.linspace(0.1, 0.5, 24, dtype=np.float32)
        img = 0.75 * img + ramp[None] * rng.uniform(0.2, 1.0)
        img += 0.22 * rng.standard_normal(img.shape)
    else:
        img += 0.08 * rng.standard_normal(img.shape)
    return (img - 0.3) / 0.4


def domain(n, seed, target):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 10, n)
    x = np.stack([render(int(d), rng, target) for d in y])[:, None]
    return TensorDataset(torch.tensor(x, dtype=torch.float32), torch.tensor(y))


class ForeverDataIterator:
    def __init__(self, loader):
        self.loader, self.it = loader, iter(loader)

    def __next__(self):
        try:
            return next(self.it)
        except StopIteration:
            self.it = iter(self.loader)
            return next(self.it)


class GradientReverse(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, coeff):
        ctx.coeff = coeff
        return x.clone()

    @staticmethod
    def backward(ctx, grad):
        return -ctx.coeff * grad, None


class ImageClassifier(nn.Module):
    def __init__(self, num_classes=10, dim=128):
        super().__init__()
        self.backbone = nn.Sequential(
            nn.Conv2d(1, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(32, 64, 3, padding=1), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten())
        self.bottleneck = nn.Sequential(nn.Linear(64 * 36, dim), nn.BatchNorm1d(dim), nn.ReLU())
        self.head = nn.Linear(dim, num_classes)

    def forward(self, x):
        f = self.bottleneck(self.backbone(x))
        return self.head(f), f

    def get_parameters(self):
        return [{"params": self.backbone.parameters()}, {"params": self.bottleneck.parameters()},
                {"params": self.head.parameters()}]


def minimum_class_confusion(logits, temperature):
    p = F.softmax(logits / temperature, dim=1)
    entropy = -(p * torch.log(p + 1e-5)).sum(1).detach()
    w = 1 + torch.exp(-entropy)
    w = (len(p) * w / w.sum()).unsqueeze(1)
    conf = (p * w).T @ p
    conf = conf / conf.sum(1, keepdim=True)
    return (conf.sum() - conf.trace()) / p.size(1)


@torch.no_grad()
def validate(model, loader):
    model.eval()
    hit = sum((model(x)[0].argmax(1) == y).sum().item() for x, y in loader)
    return 100.0 * hit / len(loader.dataset)


def train(src, tgt, model, disc, optimizer, ad_optimizer, lr_scheduler, lr_scheduler_ad, epoch, args):
    model.train()
    disc.train()
    end = time.time()
    for i in range(args.iters_per_epoch):
        x_s, y_s = next(src)
        x_t, _ = next(tgt)
        y, f = model(torch.cat([x_s, x_t]))
        y_src, y_tgt = y.chunk(2)
        coeff = 2 / (1 + np.exp(-10 * (epoch * args.iters_per_epoch + i) / 5000)) - 1
        g = torch.cat([f, F.softmax(y, 1).detach()], 1)
        d = disc(GradientReverse.apply(g, float(coeff))).squeeze(1)
        d_lab = torch.cat([torch.ones(len(x_s)), torch.zeros(len(x_t))])
        cls_loss = F.cross_entropy(y_src, y_s)
        mcc_loss = minimum_class_confusion(y_tgt, args.temperature)
        transfer_loss = F.binary_cross_entropy_with_logits(d, d_lab)
        loss = cls_loss + 0.5 * mcc_loss + args.trade_off * transfer_loss
        optimizer.zero_grad()
        ad_optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        ad_optimizer.step()
        lr_scheduler.step()
        lr_scheduler_ad.step()
        if i % args.print_freq == 0:
            acc = (y_src.argmax(1) == y_s).float().mean().item() * 100
            print(f"Epoch: [{epoch}][{i}/{args.iters_per_epoch}] time {time.time() - end:.1f} loss {loss.item():.3f} "
                  f"cls {cls_loss.item():.3f} trans {transfer_loss.item():.3f} acc {acc:.1f} "
                  f"lr {lr_scheduler.get_last_lr()[0]:.2e}", flush=True)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("-b", "--batch-size", type=int, default=32)
    p.add_argument("--lr", "--learning-rate", type=float, default=0.01)
    p.add_argument("--lr-gamma", type=float, default=0.001)
    p.add_argument("--lr-decay", type=float, default=0.75)
    p.add_argument("--momentum", type=float, default=0.9)
    p.add_argument("--wd", type=float, default=1e-3)
    p.add_argument("--trade-off", type=float, default=0.3)
    p.add_argument("--temperature", type=float, default=2.0)
    p.add_argument("--epochs", type=int, default=60)
    p.add_argument("-i", "--iters-per-epoch", type=int, default=500)
    p.add_argument("-p", "--print-freq", type=int, default=20)
    p.add_argument("--seed", type=int, default=0)
    args = p.parse_args()
    random.seed(args.seed)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)

    loader = lambda ds: DataLoader(ds, args.batch_size, shuffle=True, drop_last=True)
    src, tgt = ForeverDataIterator(loader(domain(6000, 1, False))), ForeverDataIterator(loader(domain(6000, 2, True)))
    val_loader = DataLoader(domain(1500, 3, True), 250)
    model = ImageClassifier()
    disc = nn.Sequential(nn.Linear(128 + 10, 128), nn.ReLU(), nn.Linear(128, 1))
    optimizer = SGD(model.get_parameters(), args.lr, momentum=args.momentum, weight_decay=args.wd, nesterov=True)
    ad_optimizer = SGD(disc.parameters(), args.lr, momentum=args.momentum, weight_decay=args.wd, nesterov=True)
    lr_scheduler = LambdaLR(optimizer, lambda x: (1. + args.lr_gamma * float(x)) ** (-args.lr_decay))
    lr_scheduler_ad = LambdaLR(ad_optimizer, lambda x: (1. + args.lr_gamma * float(x)) ** (-args.lr_decay))
    best = 0.0
    for epoch in range(args.epochs):
        train(src, tgt, model, disc, optimizer, ad_optimizer, lr_scheduler, lr_scheduler_ad, epoch, args)
        acc = validate(model, val_loader)
        print(f"epoch {epoch} target acc {acc:.2f}", flush=True)
        if acc > best:
            best = acc
            torch.save(model.state_dict(), "cdan_mcc_best.pth")


if __name__ == "__main__":
    main()

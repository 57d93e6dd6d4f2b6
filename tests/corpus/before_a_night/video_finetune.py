"""Finetune a small 3D convnet on short clips (action recognition)."""
import argparse
import os
import random
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

CLASSES = ["left", "right", "up", "down", "up_left", "up_right", "down_left",
           "down_right", "grow", "shrink", "still", "blink"]
STEPS = {"left": (0, -1), "right": (0, 1), "up": (-1, 0), "down": (1, 0),
         "up_left": (-1, -1), "up_right": (-1, 1), "down_left": (1, -1), "down_right": (1, 1)}


def make_clip(label, rng, frames=8, size=28):
    """A soft blob that acts out one of the classes on a noisy background."""
    name = CLASSES[label]
    yy, xx = np.mgrid[0:size, 0:size].astype(np.float32)
    cy, cx = rng.uniform(9, size - 9, size=2)
    speed = rng.uniform(0.8, 1.6)
    radius = rng.uniform(2.0, 3.5)
    bright = rng.uniform(0.5, 1.0)
    clip = np.empty((frames, size, size), dtype=np.float32)
    for t in range(frames):
        shift = t - (frames - 1) / 2
        dy, dx = STEPS.get(name, (0, 0))
        r, b = radius, bright
        if name == "grow":
            r = radius * (0.6 + 0.14 * t)
        elif name == "shrink":
            r = radius * (0.6 + 0.14 * (frames - 1 - t))
        elif name == "blink":
            b = bright if t % 2 == 0 else 0.15 * bright
        d2 = (yy - cy - dy * speed * shift) ** 2 + (xx - cx - dx * speed * shift) ** 2
        clip[t] = b * np.exp(-d2 / (2 * r * r))
    clip += rng.normal(0, 0.05, clip.shape)
    return clip


def make_split(n, seed):
    rng = np.random.RandomState(seed)
    labels = np.arange(n) % len(CLASSES)
    rng.shuffle(labels)
    clips = np.stack([make_clip(k, rng) for k in labels])
    clips = (clips - 0.08) / 0.17
    return TensorDataset(torch.from_numpy(clips.astype(np.float32)).unsqueeze(1),
                         torch.from_numpy(labels.astype(np.int64)))


def unit(cin, cout, stride):
    return nn.Sequential(nn.Conv3d(cin, cout, 3, stride=stride, padding=1, bias=False),
                         nn.BatchNorm3d(cout), nn.ReLU(inplace=True))


class TinyI3D(nn.Module):
    def __init__(self, num_classes, width=16, dropout=0.2):
        super().__init__()
        self.backbone = nn.Sequential(
            unit(1, width, (1, 2, 2)),
            unit(width, 2 * width, (1, 1, 1)),
            unit(2 * width, 2 * width, (2, 2, 2)),
            unit(2 * width, 4 * width, (1, 1, 1)),
            unit(4 * width, 8 * width, (2, 2, 2)),
        )
        self.dropout = nn.Dropout(dropout)
        self.fc = nn.Linear(8 * width, num_classes)

    def forward(self, clip):
        feat = self.backbone(clip).mean(dim=(2, 3, 4))
        fc_out = F.relu(self.fc(self.dropout(feat)))
        return fc_out


def run_eval(net, loader):
    net.eval()
    hits = np.zeros(len(CLASSES))
    total = np.zeros(len(CLASSES))
    loss_sum = 0.0
    with torch.no_grad():
        for clip, label in loader:
            fc_out = net(clip)
            loss_sum += F.cross_entropy(fc_out, label, reduction="sum").item()
            pred = fc_out.argmax(1)
            for k in range(len(CLASSES)):
                total[k] += (label == k).sum().item()
                hits[k] += ((label == k) & (pred == k)).sum().item()
    return loss_sum / total.sum(), hits.sum() / total.sum(), hits / total


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--train-clips", type=int, default=4800)
    ap.add_argument("--test-clips", type=int, default=960)
    ap.add_argument("--batch-size", type=int, default=32)
    ap.add_argument("--epochs", type=int, default=120)
    ap.add_argument("--lr", type=float, default=0.02)
    ap.add_argument("--momentum", type=float, default=0.9)
    ap.add_argument("--weight-decay", type=float, default=1e-4)
    ap.add_argument("--print-every", type=int, default=10)
    ap.add_argument("--seed", type=int, default=0)
    ap.add_argument("--out", default="runs/i3d")
    args = ap.parse_args()

    random.seed(args.seed)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)
    os.makedirs(args.out, exist_ok=True)

    train_loader = DataLoader(make_split(args.train_clips, args.seed + 100), batch_size=args.batch_size,
                              shuffle=True, drop_last=True)
    test_loader = DataLoader(make_split(args.test_clips, args.seed + 200), batch_size=96)

    net = TinyI3D(len(CLASSES))
    optimizer = torch.optim.SGD(net.parameters(), lr=args.lr, momentum=args.momentum,
                                weight_decay=args.weight_decay)
    scheduler = torch.optim.lr_scheduler.MultiStepLR(
        optimizer, milestones=[int(0.6 * args.epochs), int(0.85 * args.epochs)], gamma=0.1)

    best = 0.0
    for epoch in range(args.epochs):
        net.train()
        tic = time.time()
        for it, (clip, label) in enumerate(train_loader):
            fc_out = net(clip)
            loss = F.cross_entropy(fc_out, label)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if it % args.print_every == 0:
                top1 = (fc_out.argmax(1) == label).float().mean().item()
                print(f"[{epoch:3d}][{it:3d}/{len(train_loader)}] loss {loss.item():.4f} top1 {top1:.3f} "
                      f"lr {optimizer.param_groups[0]['lr']:.4g}", flush=True)
        scheduler.step()
        test_loss, top1, per_class = run_eval(net, test_loader)
        print(f"== epoch {epoch} ({time.time() - tic:.0f}s) test loss {test_loss:.4f} top1 {top1:.3f} | "
              + " ".join(f"{n}:{a:.2f}" for n, a in zip(CLASSES, per_class)), flush=True)
        if top1 > best:
            best = top1
            torch.save(net.state_dict(), os.path.join(args.out, "best.pth"))
    print(f"best top1 {best:.3f}")


if __name__ == "__main__":
    main()

# Segmentation of extreme weather (tropical cyclones, atmospheric rivers) on small synthetic
# climate snapshots, after the DeepCAM benchmark.

import argparse
import time
from collections import Counter

import numpy as np
import torch
import torch.nn as nn
from torch.optim.lr_scheduler import LRScheduler
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)

CLASSES = ["background", "cyclone", "river"]


class MultiStepLRWarmup(LRScheduler):
    """Linear warm-up followed by step wise decay. The milestones are counted from the end of the warm-up."""

    def __init__(self, optimizer, warmup_steps, warmup_factor, milestones, gamma=0.1, last_epoch=-1):
        self.warmup_steps = warmup_steps
        self.warmup_factor = warmup_factor
        self.warmup_slope = 1.0 / float(self.warmup_steps) if self.warmup_steps > 0 else 1.0
        self.milestones = Counter([x + self.warmup_steps + 1 for x in milestones])
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self):
        if self.last_epoch >= self.warmup_steps:
            # decay phase
            if self.last_epoch not in self.milestones:
                return [group["lr"] for group in self.optimizer.param_groups]
            return [group["lr"] * self.gamma ** self.milestones[self.last_epoch]
                    for group in self.optimizer.param_groups]

        # linear warmup phase
        if self.warmup_factor == 1.0:
            return [base_lr * (float(self.last_epoch) * self.warmup_slope) for base_lr in self.base_lrs]
        return [base_lr * ((self.warmup_factor - 1.0) * float(self.last_epoch) * self.warmup_slope + 1.0)
                for base_lr in self.base_lrs]


def make_fields(count, size, seed):
    rng = np.random.default_rng(seed)
    yy, xx = np.mgrid[0:size, 0:size].astype(np.float64)
    fields = np.zeros((count, 4, size, size), np.float32)
    labels = np.zeros((count, size, size), np.int64)
    for n in range(count):
        wind = 0.3 * rng.standard_normal((size, size))
        pressure = 0.3 * rng.standard_normal((size, size))
        moisture = 0.3 * rng.standard_normal((size, size))
        temperature = 0.3 * rng.standard_normal((size, size)) + (yy - size / 2) / size * rng.uniform(-1, 1)

        # a moist band across the map
        angle = rng.uniform(0, np.pi)
        offset = rng.uniform(-0.25, 0.25) * size
        distance = (xx - size / 2) * np.sin(angle) - (yy - size / 2) * np.cos(angle) - offset
        width = rng.uniform(3.0, 4.5)
        moisture += 1.2 * np.exp(-(distance / width) ** 2)
        wind += 0.5 * np.exp(-(distance / width) ** 2)
        labels[n][np.abs(distance) < width] = 2

        # one or two cyclones: low pressure and a ring of wind
        for _ in range(rng.integers(1, 3)):
            cy, cx = rng.uniform(6, size - 6, 2)
            radius = rng.uniform(4.0, 6.0)
            d = np.hypot(yy - cy, xx - cx)
            pressure -= 1.2 * np.exp(-(d / radius) ** 2)
            wind += 1.0 * np.exp(-((d - 0.6 * radius) / 2.0) ** 2)
            labels[n][d < radius] = 1

        fields[n] = np.stack([wind, pressure, moisture, temperature])
    return fields, labels


class ConvBlock(nn.Sequential):
    def __init__(self, cin, cout, stride=1):
        super().__init__(nn.Conv2d(cin, cout, 3, stride, 1, bias=False), nn.BatchNorm2d(cout), nn.ReLU())


class SmallDeepLab(nn.Module):
    def __init__(self, channels=4, classes=3, width=16):
        super().__init__()
        self.stem = nn.Sequential(ConvBlock(channels, width), ConvBlock(width, width))
        self.down = nn.Sequential(ConvBlock(width, 2 * width, 2), ConvBlock(2 * width, 2 * width))
        self.context = nn.Sequential(
            nn.Conv2d(2 * width, 2 * width, 3, padding=3, dilation=3, bias=False), nn.BatchNorm2d(2 * width), nn.ReLU())
        self.up = nn.ConvTranspose2d(2 * width, width, 2, 2)
        self.head = nn.Sequential(ConvBlock(2 * width, width), nn.Conv2d(width, classes, 1))

    def forward(self, x):
        low = self.stem(x)
        high = self.up(self.context(self.down(low)))
        return self.head(torch.cat([low, high], 1))


def iou(confusion):
    inter = confusion.diagonal()
    union = confusion.sum(0) + confusion.sum(1) - inter
    return inter / union.clamp(min=1)


@torch.no_grad()
def validate(net, loader, criterion):
    net.eval()
    confusion = torch.zeros(len(CLASSES), len(CLASSES))
    loss_sum, count = 0.0, 0
    for x, y in loader:
        out = net(x)
        loss_sum += criterion(out, y).item() * len(x)
        count += len(x)
        pred = out.argmax(1)
        confusion += torch.bincount(y.flatten() * len(CLASSES) + pred.flatten(), minlength=9).view(3, 3).float()
    net.train()
    return loss_sum / count, iou(confusion)


def main(pargs):
    torch.manual_seed(pargs.seed)
    np.random.seed(pargs.seed)

    xt, yt = make_fields(pargs.train_samples, pargs.size, seed=11)
    xv, yv = make_fields(192, pargs.size, seed=12)
    mean, std = xt.mean((0, 2, 3), keepdims=True), xt.std((0, 2, 3), keepdims=True)
    xt, xv = (xt - mean) / std, (xv - mean) / std

    train_loader = DataLoader(TensorDataset(torch.from_numpy(xt), torch.from_numpy(yt)), pargs.local_batch_size,
                              shuffle=True, drop_last=True)
    valid_loader = DataLoader(TensorDataset(torch.from_numpy(xv), torch.from_numpy(yv)), 64)

    frequency = np.bincount(yt.ravel(), minlength=3) / yt.size
    print("class frequencies:", dict(zip(CLASSES, frequency.round(3))))

    net = SmallDeepLab()
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.Adam(net.parameters(), lr=pargs.start_lr)

    steps_total = pargs.max_epochs * len(train_loader)
    warmup_steps = np.round(pargs.warmup_fraction * steps_total)
    scheduler = MultiStepLRWarmup(optimizer, warmup_steps, pargs.lr_warmup_factor,
                                  milestones=[int(0.6 * steps_total), int(0.85 * steps_total)], gamma=0.1)

    step, start = 0, time.time()
    net.train()
    for epoch in range(pargs.max_epochs):
        for x, y in train_loader:
            loss = criterion(net(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            scheduler.step()
            step += 1
            if step % pargs.logging_frequency == 0:
                print(f"step {step:5d}  loss_train {loss.item():.4f}  lr {scheduler.get_last_lr()[0]:.2e}")
        loss_valid, scores = validate(net, valid_loader, criterion)
        text = "  ".join(f"{c} {s:.3f}" for c, s in zip(CLASSES, scores.tolist()))
        print(f"epoch {epoch}  {time.time() - start:.1f}s  loss_valid {loss_valid:.4f}  iou {scores.mean():.3f}  ({text})")


if __name__ == "__main__":
    AP = argparse.ArgumentParser()
    AP.add_argument("--train_samples", type=int, default=1280)
    AP.add_argument("--size", type=int, default=32)
    AP.add_argument("--local_batch_size", type=int, default=16)
    AP.add_argument("--max_epochs", type=int, default=6)
    AP.add_argument("--start_lr", type=float, default=2e-3)
    AP.add_argument("--warmup_fraction", type=float, default=0.0)
    AP.add_argument("--lr_warmup_factor", type=float, default=1.0)
    AP.add_argument("--logging_frequency", type=int, default=40)
    AP.add_argument("--seed", type=int, default=333)
    main(AP.parse_args())

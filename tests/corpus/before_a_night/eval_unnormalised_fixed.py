"""Mini ResNet on synthetic colour textures, in the manner of an ImageNet workload."""
import argparse
import math
import os
import random

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

CLASSES = 8


class Normalize:
    def __init__(self, mean, std):
        self.mean = torch.tensor(mean).view(3, 1, 1)
        self.std = torch.tensor(std).view(3, 1, 1)

    def __call__(self, img):
        return (img - self.mean) / self.std


class Textures(Dataset):
    def __init__(self, images, labels, transform=None):
        self.images, self.labels, self.transform = images, labels, transform

    def __len__(self):
        return len(self.images)

    def __getitem__(self, i):
        img = torch.from_numpy(self.images[i]).permute(2, 0, 1).float() / 255.0
        if self.transform is not None:
            img = self.transform(img)
        return img, int(self.labels[i])


def generate(n, rng):
    yy, xx = np.mgrid[0:24, 0:24]
    labels = rng.integers(0, CLASSES, n)
    imgs = np.empty((n, 24, 24, 3), dtype=np.uint8)
    for i, c in enumerate(labels):
        freq, angle = (0.5, 0.9)[c % 2], math.pi * (c // 2) / 4
        wave = np.sin(freq * (xx * math.cos(angle) + yy * math.sin(angle)) + rng.uniform(0, 6.28))
        base = np.array([185, 170, 150]) + rng.normal(0, 8, 3)
        img = base + wave[..., None] * np.array([22, 18, 14]) + rng.normal(0, 12, (24, 24, 3))
        imgs[i] = np.clip(img, 0, 255)
    return imgs, labels


class Block(nn.Module):
    def __init__(self, cin, cout, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(cin, cout, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(cout)
        self.conv2 = nn.Conv2d(cout, cout, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(cout)
        self.skip = nn.Conv2d(cin, cout, 1, stride, bias=False)

    def forward(self, x):
        y = F.relu(self.bn1(self.conv1(x)))
        return F.relu(self.bn2(self.conv2(y)) + self.skip(x))


class MiniResNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU())
        self.blocks = nn.Sequential(Block(16, 24, 2), Block(24, 48, 2))
        self.fc = nn.Linear(48, CLASSES)

    def forward(self, x):
        return self.fc(self.blocks(self.stem(x)).mean(dim=(2, 3)))


def evaluate(model, loader):
    model.eval()
    loss, correct, n = 0.0, 0, 0
    with torch.no_grad():
        for x, y in loader:
            out = model(x)
            loss += F.cross_entropy(out, y, reduction="sum").item()
            correct += (out.argmax(1) == y).sum().item()
            n += len(y)
    return loss / n, correct / n


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--epochs", type=int, default=200)
    p.add_argument("--batch", type=int, default=64)
    p.add_argument("--lr", type=float, default=2e-3)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--checkpoint", default="checkpoint_textures.pt")
    a = p.parse_args()
    random.seed(a.seed)
    np.random.seed(a.seed)
    torch.manual_seed(a.seed)

    rng = np.random.default_rng(a.seed)
    train_images, train_labels = generate(1280, rng)
    test_images, test_labels = generate(512, rng)
    mean = (train_images.mean((0, 1, 2)) / 255).astype(np.float32)
    std = (train_images.std((0, 1, 2)) / 255).astype(np.float32)

    def build_input(split):
        if split == "train":
            return Textures(train_images, train_labels, Normalize(mean, std))
        return Textures(test_images, test_labels, Normalize(mean, std))

    gen = torch.Generator()
    train_loader = DataLoader(build_input("train"), a.batch, shuffle=True, generator=gen, drop_last=True)
    test_loader = DataLoader(build_input("test"), 128)

    model = MiniResNet()
    opt = torch.optim.AdamW(model.parameters(), lr=a.lr, weight_decay=1e-3)
    sched = torch.optim.lr_scheduler.OneCycleLR(opt, max_lr=a.lr, epochs=a.epochs,
                                                steps_per_epoch=len(train_loader), pct_start=0.05)
    epoch0 = 0
    if os.path.isfile(a.checkpoint):
        ck = torch.load(a.checkpoint, weights_only=False)
        model.load_state_dict(ck["model"])
        opt.load_state_dict(ck["opt"])
        sched.load_state_dict(ck["sched"])
        epoch0 = ck["epoch"] + 1
    for epoch in range(epoch0, a.epochs):
        gen.manual_seed(a.seed * 100003 + epoch)
        model.train()
        for it, (x, y) in enumerate(train_loader):
            loss = F.cross_entropy(model(x), y)
            opt.zero_grad(set_to_none=True)
            loss.backward()
            opt.step()
            sched.step()
            if it % 5 == 0:
                print(f"[{epoch:3d}:{it:3d}] loss {loss.item():.4f} lr {sched.get_last_lr()[0]:.2e}", flush=True)
        tl, ta = evaluate(model, test_loader)
        print(f"epoch {epoch} test loss {tl:.4f} acc {ta:.3f}", flush=True)
        torch.save(dict(model=model.state_dict(), opt=opt.state_dict(), sched=sched.state_dict(), epoch=epoch),
                   a.checkpoint)


if __name__ == "__main__":
    main()

import argparse
import os
import random

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

parser = argparse.ArgumentParser(description="small ResNet on 10 texture classes")
parser.add_argument("--epochs", default=200, type=int)
parser.add_argument("--batch_size", default=40, type=int)
parser.add_argument("--lr", default=0.05, type=float)
parser.add_argument("--weight_decay", default=5e-4, type=float)
parser.add_argument("--seed", default=0, type=int)
parser.add_argument("--checkpoint", default="resnet_last.pth")


def make_images(n, seed):
    """uint8 RGB pictures with an oriented grating, one orientation and frequency a class."""
    rng = np.random.default_rng(seed)
    yy, xx = np.mgrid[0:24, 0:24] / 24.0
    labels = rng.integers(0, 10, n)
    imgs = np.empty((n, 24, 24, 3), dtype=np.uint8)
    for i, c in enumerate(labels):
        ang = (c % 5) * np.pi / 5 + rng.normal(0, 0.16)
        freq = 3.0 if c < 5 else 6.0
        wave = np.sin(2 * np.pi * freq * (xx * np.cos(ang) + yy * np.sin(ang)) + rng.uniform(0, 6.28))
        color = rng.uniform(0.05, 0.16, 3)
        base = np.array([0.70, 0.66, 0.60]) + rng.normal(0, 0.03, 3)
        img = base + wave[..., None] * color + rng.normal(0, 0.14, (24, 24, 3))
        imgs[i] = np.clip(img * 255, 0, 255)
    return imgs, labels.astype(np.int64)


class Compose:
    def __init__(self, *ops):
        self.ops = ops

    def __call__(self, x):
        for op in self.ops:
            x = op(x)
        return x


def to_tensor(img):
    return torch.from_numpy(img).permute(2, 0, 1).float() / 255.0


class Normalize:
    def __init__(self, mean, std):
        self.mean = torch.tensor(mean).view(3, 1, 1)
        self.std = torch.tensor(std).view(3, 1, 1)

    def __call__(self, x):
        return (x - self.mean) / self.std


def random_flip(x):
    return x.flip(-1).flip(-2) if torch.rand(()) < 0.5 else x


MEAN, STD = (0.69, 0.65, 0.60), (0.155, 0.155, 0.155)
train_transform = Compose(to_tensor, random_flip, Normalize(MEAN, STD))
test_transform = Compose(to_tensor, Normalize(MEAN, STD))


class Textures(Dataset):
    def __init__(self, n, seed, transform):
        self.images, self.labels = make_images(n, seed)
        self.transform = transform

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        return self.transform(self.images[i]), int(self.labels[i])


class Block(nn.Module):
    def __init__(self, cin, cout, stride):
        super().__init__()
        self.c1 = nn.Conv2d(cin, cout, 3, stride, 1, bias=False)
        self.b1 = nn.BatchNorm2d(cout)
        self.c2 = nn.Conv2d(cout, cout, 3, 1, 1, bias=False)
        self.b2 = nn.BatchNorm2d(cout)
        self.short = nn.Sequential()
        if stride != 1 or cin != cout:
            self.short = nn.Sequential(nn.Conv2d(cin, cout, 1, stride, bias=False), nn.BatchNorm2d(cout))

    def forward(self, x):
        h = F.relu(self.b1(self.c1(x)))
        return F.relu(self.b2(self.c2(h)) + self.short(x))


class ResNet(nn.Module):
    def __init__(self, classes=10):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 16, 3, 2, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU())
        self.body = nn.Sequential(Block(16, 16, 1), Block(16, 32, 2), Block(32, 64, 2))
        self.fc = nn.Linear(64, classes)

    def forward(self, x):
        h = self.body(self.stem(x))
        return self.fc(h.mean((2, 3)))


def test(model, loader):
    model.eval()
    correct, loss, total = 0, 0.0, 0
    with torch.no_grad():
        for x, y in loader:
            out = model(x)
            loss += F.cross_entropy(out, y, reduction="sum").item()
            correct += (out.argmax(1) == y).sum().item()
            total += len(y)
    return loss / total, 100.0 * correct / total


def main():
    args = parser.parse_args()
    random.seed(args.seed)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)
    shuffle = torch.Generator()
    train_loader = DataLoader(Textures(1000, 1, train_transform), args.batch_size, shuffle=True, generator=shuffle)
    test_loader = DataLoader(Textures(200, 2, test_transform), 100)

    model = ResNet()
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=0.9, weight_decay=args.weight_decay)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=args.epochs)
    first = 1
    if os.path.isfile(args.checkpoint):
        state = torch.load(args.checkpoint)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        scheduler.load_state_dict(state["scheduler"])
        torch.set_rng_state(state["rng"])
        first = state["epoch"] + 1
        print("=> resumed after epoch", state["epoch"])

    for epoch in range(first, args.epochs + 1):
        model.train()
        shuffle.manual_seed(args.seed + 7919 * epoch)
        running, seen = 0.0, 0
        for x, y in train_loader:
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            running += loss.item() * len(y)
            seen += len(y)
        scheduler.step()
        vloss, vacc = test(model, test_loader)
        print(f"epoch {epoch:3d}  train loss {running / seen:.4f}  test loss {vloss:.4f}  test acc {vacc:.2f}%", flush=True)
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(),
                    "scheduler": scheduler.state_dict(), "epoch": epoch, "rng": torch.get_rng_state()}, args.checkpoint)


if __name__ == "__main__":
    main()

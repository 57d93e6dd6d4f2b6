"""Segment surface defects (scratches and blobs) on noisy metal textures with a small U-Net."""
import argparse
import os
import random

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset

SIZE = 40


def surface(rng):
    yy, xx = np.mgrid[:SIZE, :SIZE]
    mask = np.zeros((SIZE, SIZE), bool)
    for _ in range(rng.randint(1, 3)):
        cy, cx = rng.uniform(6, SIZE - 6), rng.uniform(6, SIZE - 6)
        if rng.random() < 0.5:
            mask |= (yy - cy) ** 2 + (xx - cx) ** 2 < rng.uniform(2.5, 5.5) ** 2
        else:
            a, length = rng.uniform(0, np.pi), rng.uniform(6, 14)
            u, v = (yy - cy) * np.sin(a) + (xx - cx) * np.cos(a), (yy - cy) * np.cos(a) - (xx - cx) * np.sin(a)
            mask |= (abs(u) < length) & (abs(v) < 1.5)
    grain = np.random.default_rng(rng.randrange(2 ** 31)).normal(size=(SIZE, SIZE))
    image = 0.3 * np.sin(yy / rng.uniform(1.0, 3.0)) + 0.25 * grain + mask * rng.choice([-1.2, 1.2])
    return image.astype(np.float32), mask.astype(np.float32)


class Surfaces(Dataset):
    def __init__(self, n, seed):
        rng = random.Random(seed)
        self.items = [surface(rng) for _ in range(n)]

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        image, mask = self.items[i]
        return torch.from_numpy(image / 0.5)[None], torch.from_numpy(mask)[None]


def conv(a, b):
    return nn.Sequential(nn.Conv2d(a, b, 3, padding=1), nn.BatchNorm2d(b), nn.ReLU(),
                         nn.Conv2d(b, b, 3, padding=1), nn.BatchNorm2d(b), nn.ReLU())


class UNet(nn.Module):
    def __init__(self, ch=12, drop=0.1):
        super().__init__()
        self.d1, self.d2, self.d3 = conv(1, ch), conv(ch, 2 * ch), conv(2 * ch, 4 * ch)
        self.drop = nn.Dropout2d(drop)
        self.u2, self.u1 = conv(6 * ch, 2 * ch), conv(3 * ch, ch)
        self.out = nn.Conv2d(ch, 1, 1)

    def forward(self, x):
        a = self.d1(x)
        b = self.d2(F.max_pool2d(a, 2))
        c = self.drop(self.d3(F.max_pool2d(b, 2)))
        b = self.u2(torch.cat([b, F.interpolate(c, scale_factor=2)], 1))
        return self.out(self.u1(torch.cat([a, F.interpolate(b, scale_factor=2)], 1)))


def seg_loss(logits, mask):
    prob = logits.sigmoid()
    dice = 1 - (2 * (prob * mask).sum((1, 2, 3)) + 1) / (prob.sum((1, 2, 3)) + mask.sum((1, 2, 3)) + 1)
    return F.binary_cross_entropy_with_logits(logits, mask) + dice.mean()


class Trainer:
    def __init__(self, args):
        random.seed(args.seed)
        np.random.seed(args.seed)
        torch.manual_seed(args.seed)
        self.args = args
        self.train_loader = DataLoader(Surfaces(480, args.seed), args.batch_size, shuffle=True)
        self.val_loader = DataLoader(Surfaces(96, args.seed + 1), 48)
        self.model = UNet()
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=args.lr, weight_decay=1e-4)
        self.epoch = 0
        if os.path.exists(args.checkpoint):
            self.load(args.checkpoint)

    def load(self, path):
        state = torch.load(path)
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        torch.set_rng_state(state["torch_rng"])
        self.epoch = state["epoch"]

    def save(self, path):
        torch.save({"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict(),
                    "torch_rng": torch.get_rng_state(), "epoch": self.epoch}, path)

    def train(self):
        while self.epoch < self.args.epochs:
            self.model.train()
            for i, (image, mask) in enumerate(self.train_loader):
                loss = seg_loss(self.model(image), mask)
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
                if i % 5 == 0:
                    print(f"epoch {self.epoch} step {i} loss {loss.item():.4f}", flush=True)
            print(f"epoch {self.epoch} val IoU {self.validate():.3f}", flush=True)
            self.epoch += 1
            self.save(self.args.checkpoint)

    @torch.no_grad()
    def validate(self):
        self.model.eval()
        inter = union = 0.0
        for image, mask in self.val_loader:
            pred = self.model(image) > 0
            inter += (pred & (mask > 0)).sum().item()
            union += (pred | (mask > 0)).sum().item()
        return inter / max(union, 1)


if __name__ == "__main__":
    p = argparse.ArgumentParser()
    p.add_argument("--epochs", type=int, default=200)
    p.add_argument("--batch-size", type=int, default=24)
    p.add_argument("--lr", type=float, default=2e-3)
    p.add_argument("--seed", type=int, default=42)
    p.add_argument("--checkpoint", default="unet.pt")
    Trainer(p.parse_args()).train()

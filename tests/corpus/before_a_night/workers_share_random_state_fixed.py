"""2-d organ segmentation with random zoom, rotation and intensity transforms in loader workers."""
import argparse
import os
import random

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset, get_worker_info

SIZE = 40


class RandAffineIntensity:
    def __init__(self):
        self.R = np.random.RandomState()

    def set_random_state(self, seed):
        self.R = np.random.RandomState(seed)
        return self

    def randomize(self):
        self.angle = self.R.uniform(-0.35, 0.35)
        self.zoom = self.R.uniform(0.85, 1.15)
        self.gain = self.R.uniform(0.8, 1.2)
        self.shift = self.R.uniform(-0.2, 0.2)

    def __call__(self, image, label):
        self.randomize()
        c, s = np.cos(self.angle) / self.zoom, np.sin(self.angle) / self.zoom
        theta = torch.tensor([[[c, -s, 0.0], [s, c, 0.0]]], dtype=torch.float32)
        grid = F.affine_grid(theta, (1, 1, SIZE, SIZE), align_corners=False)
        image = F.grid_sample(image[None], grid, padding_mode="border", align_corners=False)[0]
        label = F.grid_sample(label[None, None].float(), grid, mode="nearest", align_corners=False)[0, 0].long()
        return image * self.gain + self.shift, label


class OrganDataset(Dataset):
    def __init__(self, images, labels, transform=None):
        self.images, self.labels, self.transform = images, labels, transform

    def set_random_state(self, seed):
        if self.transform is not None:
            self.transform.set_random_state(seed)

    def __len__(self):
        return len(self.images)

    def __getitem__(self, i):
        image, label = self.images[i], self.labels[i]
        if self.transform is not None:
            image, label = self.transform(image, label)
        return image, label


def worker_init_fn(worker_id):
    info = get_worker_info()
    info.dataset.set_random_state(info.seed % 2 ** 32)


def phantoms(n, rng):
    yy, xx = np.mgrid[0:SIZE, 0:SIZE]
    images = rng.normal(0, 0.25, (n, 1, SIZE, SIZE))
    labels = np.zeros((n, SIZE, SIZE), dtype=np.int64)
    for i in range(n):
        for organ, (cx, cy, a, b) in enumerate([(13, 20, 7, 9), (28, 15, 5, 5), (27, 29, 6, 3)], start=1):
            cx, cy = cx + rng.uniform(-2, 2), cy + rng.uniform(-2, 2)
            inside = ((xx - cx) / a) ** 2 + ((yy - cy) / b) ** 2 < rng.uniform(0.8, 1.2)
            labels[i][inside] = organ
            images[i, 0][inside] += (0.0, 0.7, 1.3, 1.9)[organ]
    images = (images - images.mean()) / images.std()
    return torch.tensor(images, dtype=torch.float32), torch.from_numpy(labels)


class TinyUNet(nn.Module):
    def __init__(self, classes=4, w=16):
        super().__init__()
        self.down1 = nn.Sequential(nn.Conv2d(1, w, 3, padding=1), nn.InstanceNorm2d(w, affine=True), nn.ReLU())
        self.down2 = nn.Sequential(nn.Conv2d(w, 2 * w, 3, 2, 1), nn.InstanceNorm2d(2 * w, affine=True), nn.ReLU())
        self.mid = nn.Sequential(nn.Conv2d(2 * w, 2 * w, 3, padding=1), nn.ReLU())
        self.up = nn.ConvTranspose2d(2 * w, w, 2, 2)
        self.out = nn.Sequential(nn.Conv2d(2 * w, w, 3, padding=1), nn.ReLU(), nn.Conv2d(w, classes, 1))

    def forward(self, x):
        a = self.down1(x)
        b = self.mid(self.down2(a))
        return self.out(torch.cat([a, self.up(b)], dim=1))


def mean_dice(model, loader):
    model.eval()
    inter, total = torch.zeros(4), torch.zeros(4)
    with torch.no_grad():
        for x, y in loader:
            pred = model(x).argmax(1)
            for c in range(4):
                inter[c] += 2 * ((pred == c) & (y == c)).sum()
                total[c] += (pred == c).sum() + (y == c).sum()
    return (inter / total)[1:].mean().item()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=200)
    ap.add_argument("--batch-size", type=int, default=12)
    ap.add_argument("--workers", type=int, default=2)
    ap.add_argument("--lr", type=float, default=2e-3)
    ap.add_argument("--seed", type=int, default=0)
    ap.add_argument("--ckpt", default="organs.pt")
    a = ap.parse_args()
    random.seed(a.seed)
    np.random.seed(a.seed)
    torch.manual_seed(a.seed)
    rng = np.random.default_rng(a.seed)
    train_ds = OrganDataset(*phantoms(480, rng), RandAffineIntensity().set_random_state(a.seed))
    val_ds = OrganDataset(*phantoms(96, rng))
    gen = torch.Generator()
    train_loader = DataLoader(train_ds, a.batch_size, shuffle=True, num_workers=a.workers,
                              generator=gen, worker_init_fn=worker_init_fn)
    val_loader = DataLoader(val_ds, 32)

    model = TinyUNet()
    opt = torch.optim.Adam(model.parameters(), lr=a.lr)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, a.epochs, eta_min=a.lr / 100)
    start = 0
    if os.path.exists(a.ckpt):
        ck = torch.load(a.ckpt)
        model.load_state_dict(ck["model"])
        opt.load_state_dict(ck["opt"])
        sched.load_state_dict(ck["sched"])
        start = ck["epoch"] + 1
    for epoch in range(start, a.epochs):
        gen.manual_seed(a.seed + 1000 * epoch)
        model.train()
        for i, (x, y) in enumerate(train_loader):
            loss = F.cross_entropy(model(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            if i % 8 == 0:
                print(f"epoch {epoch} batch {i} loss {loss.item():.4f}", flush=True)
        sched.step()
        print(f"epoch {epoch} mean dice {mean_dice(model, val_loader):.4f}", flush=True)
        torch.save({"model": model.state_dict(), "opt": opt.state_dict(), "sched": sched.state_dict(),
                    "epoch": epoch}, a.ckpt)


if __name__ == "__main__":
    main()

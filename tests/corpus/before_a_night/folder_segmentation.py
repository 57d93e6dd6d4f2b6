"""Semantic segmentation from two folders (images/ and masks/), with a seeded split and training."""
import argparse
import os
import random

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset, random_split

PLACES = ["harbour", "orchard", "station", "meadow", "quarry", "village", "airfield", "river", "forest", "depot"]


def seed_everything(seed):
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)


def write_folders(root, n=700, side=64):
    """Aerial-like tiles: fields, water and roofs. Some tiles have not been annotated yet."""
    os.makedirs(os.path.join(root, "images"), exist_ok=True)
    os.makedirs(os.path.join(root, "masks"), exist_ok=True)
    rng = np.random.default_rng(2021)
    yy, xx = np.mgrid[0:side, 0:side]
    for i in range(n):
        img = np.zeros((side, side, 3)) + np.array([0.35, 0.5, 0.25]) + 0.05 * np.sin(xx / rng.uniform(2, 6))[..., None]
        mask = np.zeros((side, side), np.uint8)
        a, b = rng.uniform(-1, 1), rng.uniform(10, 54)
        water = np.abs(yy - (a * (xx - side / 2) + b)) < rng.uniform(3, 8)
        img[water], mask[water] = [0.15, 0.3, 0.5], 1
        for _ in range(rng.integers(2, 7)):
            r, c = rng.integers(0, side - 14, 2)
            h, w = rng.integers(6, 14, 2)
            img[r:r + h, c:c + w], mask[r:r + h, c:c + w] = rng.uniform(0.45, 0.75, 3), 2
        img = img * rng.uniform(0.7, 1.2) + 0.06 * rng.standard_normal(img.shape)
        name = f"{PLACES[i % len(PLACES)]}_{i:04d}.npy"
        np.save(os.path.join(root, "images", name), (np.clip(img, 0, 1) * 255).astype(np.uint8))
        if i % 12:
            np.save(os.path.join(root, "masks", name), mask)


class SemanticSegmentationFolderInput(Dataset):
    def __init__(self, folder, mask_folder):
        self.records = self.load_data(folder, mask_folder)
        self.train = False

    def load_data(self, folder, mask_folder):
        files = os.listdir(folder)
        mask_files = os.listdir(mask_folder)
        all_files = set(files).intersection(set(mask_files))
        if len(all_files) != len(files) or len(all_files) != len(mask_files):
            print(f"Found inconsistent files in input folder and mask folder: using {len(all_files)} of {len(files)}.")
        files = [os.path.join(folder, f) for f in all_files]
        mask_files = [os.path.join(mask_folder, f) for f in all_files]
        return list(zip(files, mask_files))

    def __len__(self):
        return len(self.records)

    def __getitem__(self, i):
        f, m = self.records[i]
        img = torch.from_numpy(np.load(f)).permute(2, 0, 1).float() / 255
        return (img - 0.45) / 0.2, torch.from_numpy(np.load(m)).long()


def augment(x, y):
    if random.random() < 0.5:
        x, y = x.flip(-1), y.flip(-1)
    if random.random() < 0.5:
        x, y = x.flip(-2), y.flip(-2)
    return x, y


def block(cin, cout):
    return nn.Sequential(nn.Conv2d(cin, cout, 3, padding=1), nn.BatchNorm2d(cout), nn.ReLU(),
                         nn.Conv2d(cout, cout, 3, padding=1), nn.BatchNorm2d(cout), nn.ReLU())


class UNet(nn.Module):
    def __init__(self, classes=3, w=16):
        super().__init__()
        self.e1, self.e2, self.e3 = block(3, w), block(w, 2 * w), block(2 * w, 4 * w)
        self.d2, self.d1 = block(6 * w, 2 * w), block(3 * w, w)
        self.out = nn.Conv2d(w, classes, 1)

    def forward(self, x):
        a = self.e1(x)
        b = self.e2(F.max_pool2d(a, 2))
        c = self.e3(F.max_pool2d(b, 2))
        b = self.d2(torch.cat([F.interpolate(c, scale_factor=2), b], 1))
        return self.out(self.d1(torch.cat([F.interpolate(b, scale_factor=2), a], 1)))


def run_validation(model, loader, classes=3):
    model.eval()
    conf = torch.zeros(classes, classes)
    with torch.no_grad():
        for x, y in loader:
            idx = y.flatten() * classes + model(x).argmax(1).flatten()
            conf += torch.bincount(idx, minlength=classes ** 2).view(classes, classes)
    iou = conf.diag() / (conf.sum(0) + conf.sum(1) - conf.diag()).clamp(min=1)
    return iou.mean().item()


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--data", default="tiles")
    p.add_argument("--epochs", type=int, default=200)
    p.add_argument("--batch_size", type=int, default=16)
    p.add_argument("--lr", type=float, default=1e-3)
    p.add_argument("--val_split", type=float, default=0.15)
    p.add_argument("--seed", type=int, default=42)
    p.add_argument("--save", default="tiles_unet.pt")
    args = p.parse_args()
    seed_everything(args.seed)
    if not os.path.isdir(os.path.join(args.data, "masks")):
        write_folders(args.data)

    dataset = SemanticSegmentationFolderInput(os.path.join(args.data, "images"), os.path.join(args.data, "masks"))
    n_val = int(len(dataset) * args.val_split)
    train_set, val_set = random_split(dataset, [len(dataset) - n_val, n_val],
                                      generator=torch.Generator().manual_seed(args.seed))
    train_loader = DataLoader(train_set, args.batch_size, shuffle=True)
    val_loader = DataLoader(val_set, args.batch_size)
    print("first validation tile:", os.path.basename(dataset.records[val_set.indices[0]][0]))

    model = UNet()
    opt = torch.optim.AdamW(model.parameters(), lr=args.lr)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, args.epochs)
    best = 0.0
    for epoch in range(args.epochs):
        model.train()
        for i, (x, y) in enumerate(train_loader):
            x, y = augment(x, y)
            loss = F.cross_entropy(model(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            if i % 10 == 0:
                print(f"epoch {epoch} {i}/{len(train_loader)} loss {loss.item():.5f}", flush=True)
        miou = run_validation(model, val_loader)
        sched.step()
        print(f"epoch {epoch} val miou {miou:.4f}", flush=True)
        if miou > best:
            best = miou
            torch.save(model.state_dict(), args.save)


if __name__ == "__main__":
    main()

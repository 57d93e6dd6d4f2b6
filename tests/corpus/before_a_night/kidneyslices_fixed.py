"""Kidney / tumour segmentation on axial CT slices with a small U-Net."""
import argparse
import random
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

HU_MEAN, HU_STD = 101.0, 76.9          # statistics of the foreground voxels
HU_CLIP = (-79, 304)
N_CLASSES = 3


def make_slice(case_id, size=64):
    """One synthetic contrast-enhanced slice in Hounsfield units with its label map."""
    rng = np.random.default_rng(case_id)
    yy, xx = np.mgrid[0:size, 0:size] / size - 0.5
    img = np.full((size, size), -900.0)
    seg = np.zeros((size, size), dtype=np.int64)
    body = (xx / 0.46) ** 2 + (yy / rng.uniform(0.32, 0.40)) ** 2 < 1
    img[body] = rng.normal(20, 8)
    fat = body & ((xx / 0.41) ** 2 + (yy / 0.30) ** 2 > 1)
    img[fat] = -90
    spine = (xx ** 2 + (yy - 0.2) ** 2) < 0.06 ** 2
    img[spine] = 420
    liver = ((xx + 0.22) / 0.17) ** 2 + ((yy + 0.10) / 0.14) ** 2 < 1
    img[liver & body] = rng.normal(105, 10)
    for side in (-1, 1):
        if rng.random() < 0.1:
            continue
        cx, cy = side * rng.uniform(0.17, 0.24), rng.uniform(0.06, 0.14)
        a, b = rng.uniform(0.06, 0.09), rng.uniform(0.08, 0.11)
        kidney = ((xx - cx) / a) ** 2 + ((yy - cy) / b) ** 2 < 1
        img[kidney] = rng.normal(185, 15)
        seg[kidney] = 1
        if rng.random() < 0.5:
            r = rng.uniform(0.03, 0.055)
            t = rng.uniform(0, 2 * np.pi)
            tumour = (xx - cx - a * np.cos(t) * 0.8) ** 2 + (yy - cy - b * np.sin(t) * 0.8) ** 2 < r ** 2
            img[tumour] = rng.normal(75, 12)
            seg[tumour] = 2
    img = img + rng.normal(0, 14, img.shape)
    return img.astype(np.float32), seg


class SliceDataset(Dataset):
    def __init__(self, case_ids, transforms):
        self.cases = [make_slice(c) for c in case_ids]
        self.transforms = transforms

    def __len__(self):
        return len(self.cases)

    def __getitem__(self, i):
        img, seg = self.cases[i]
        for t in self.transforms:
            img, seg = t(img, seg)
        return torch.from_numpy(np.ascontiguousarray(img))[None], torch.from_numpy(np.ascontiguousarray(seg))


def clip_hu(img, seg):
    return np.clip(img, *HU_CLIP), seg


def normalize(img, seg):
    return (img - HU_MEAN) / HU_STD, seg


def random_flip(img, seg):
    if random.random() < 0.5:
        img, seg = img[:, ::-1], seg[:, ::-1]
    return img, seg


def random_noise(img, seg):
    return img + np.random.normal(0, 0.05, img.shape).astype(np.float32), seg


def get_training_augmentation():
    return [clip_hu, normalize, random_flip, random_noise]


def get_validation_augmentation():
    return [clip_hu, normalize]


def conv_block(i, o):
    return nn.Sequential(nn.Conv2d(i, o, 3, padding=1, bias=False), nn.BatchNorm2d(o), nn.ReLU(inplace=True),
                         nn.Conv2d(o, o, 3, padding=1, bias=False), nn.BatchNorm2d(o), nn.ReLU(inplace=True))


class UNet(nn.Module):
    def __init__(self, base=16):
        super().__init__()
        self.e1, self.e2, self.e3 = conv_block(1, base), conv_block(base, 2 * base), conv_block(2 * base, 4 * base)
        self.u2 = nn.ConvTranspose2d(4 * base, 2 * base, 2, 2)
        self.d2 = conv_block(4 * base, 2 * base)
        self.u1 = nn.ConvTranspose2d(2 * base, base, 2, 2)
        self.d1 = conv_block(2 * base, base)
        self.head = nn.Conv2d(base, N_CLASSES, 1)

    def forward(self, x):
        a = self.e1(x)
        b = self.e2(F.max_pool2d(a, 2))
        c = self.e3(F.max_pool2d(b, 2))
        b = self.d2(torch.cat([self.u2(c), b], 1))
        a = self.d1(torch.cat([self.u1(b), a], 1))
        return self.head(a)


def dice_ce_loss(logits, seg):
    ce = F.cross_entropy(logits, seg)
    prob = logits.softmax(1)
    onehot = F.one_hot(seg, N_CLASSES).permute(0, 3, 1, 2).float()
    inter = (prob * onehot).sum((0, 2, 3))
    dice = (2 * inter + 1) / (prob.sum((0, 2, 3)) + onehot.sum((0, 2, 3)) + 1)
    return ce + 1 - dice[1:].mean()


@torch.no_grad()
def validate(model, loader):
    model.eval()
    inter, union, loss, n = torch.zeros(N_CLASSES), torch.zeros(N_CLASSES), 0.0, 0
    for img, seg in loader:
        logits = model(img)
        loss += dice_ce_loss(logits, seg).item() * len(img)
        n += len(img)
        pred = logits.argmax(1)
        for c in range(N_CLASSES):
            inter[c] += ((pred == c) & (seg == c)).sum()
            union[c] += (pred == c).sum() + (seg == c).sum()
    dice = 2 * inter / union.clamp(min=1)
    return loss / n, dice.tolist()


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--epochs", type=int, default=150)
    p.add_argument("--batch_size", type=int, default=16)
    p.add_argument("--lr", type=float, default=1e-3)
    p.add_argument("--n_train", type=int, default=1600)
    p.add_argument("--n_val", type=int, default=200)
    p.add_argument("--seed", type=int, default=0)
    args = p.parse_args()
    random.seed(args.seed)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)

    train_set = SliceDataset(range(args.n_train), get_training_augmentation())
    val_set = SliceDataset(range(100000, 100000 + args.n_val), get_validation_augmentation())
    train_loader = DataLoader(train_set, args.batch_size, shuffle=True, drop_last=True)
    val_loader = DataLoader(val_set, args.batch_size)
    model = UNet()
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=args.epochs)
    best = 0.0
    for epoch in range(1, args.epochs + 1):
        model.train()
        t0, total = time.time(), 0.0
        for it, (img, seg) in enumerate(train_loader, 1):
            loss = dice_ce_loss(model(img), seg)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
            if it % 20 == 0:
                print(f"epoch {epoch} {it}/{len(train_loader)} loss {total / it:.4f} "
                      f"{1000 * (time.time() - t0) / it:.0f} ms/it", flush=True)
        scheduler.step()
        val_loss, dice = validate(model, val_loader)
        print(f"epoch {epoch}: val loss {val_loss:.4f} dice kidney {dice[1]:.3f} tumour {dice[2]:.3f}", flush=True)
        if dice[1] + dice[2] > best:
            best = dice[1] + dice[2]
            torch.save(model.state_dict(), "unet_best.pt")


if __name__ == "__main__":
    main()

"""U-Net for pet segmentation (pet / outline / background)."""
import argparse
import os
import random

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

CLASS_NAMES = ['pet', 'background', 'outline']


class PetPhotos(Dataset):
    """Photos of different sizes with trimaps (1 pet, 2 background, 3 outline)."""

    def __init__(self, count, image_size, training, seed):
        self.image_size = image_size
        self.training = training
        rng = np.random.default_rng(seed)
        self.samples = [self._shoot(rng) for _ in range(count)]

    @staticmethod
    def _shoot(rng):
        h, w = rng.integers(90, 150, 2)
        yy, xx = np.mgrid[0:h, 0:w].astype(np.float32)
        cy, cx = h * rng.uniform(0.4, 0.6), w * rng.uniform(0.4, 0.6)
        angle = np.arctan2(yy - cy, xx - cx)
        radius = np.hypot((yy - cy) / h, (xx - cx) / w)
        edge = rng.uniform(0.22, 0.3)
        for k in range(2, 6):
            edge = edge + rng.normal(0, 0.08 / k) * np.cos(k * angle + rng.uniform(0, 6.28))
        for ear in (-2.2, -0.9):
            edge = edge + 0.1 * np.exp(-((angle - ear) / 0.18) ** 2)
        trimap = np.full((h, w), 2, dtype=np.uint8)
        trimap[radius < edge + 0.025] = 3
        trimap[radius < edge - 0.025] = 1
        fur, wall = rng.uniform(60, 220, 3), rng.uniform(40, 200, 3)
        stripes = 25 * np.sin(xx * rng.uniform(0.3, 0.7) + yy * rng.uniform(-0.4, 0.4))
        image = np.where((radius < edge)[..., None], fur + stripes[..., None], wall + 0.15 * (xx + yy)[..., None])
        image = image + rng.normal(0, 14, (h, w, 3))
        return image.clip(0, 255).astype(np.uint8), trimap

    def __len__(self):
        return len(self.samples)

    def __getitem__(self, index):
        image, trimap = self.samples[index]
        image = torch.from_numpy(image).permute(2, 0, 1).float()
        mask = torch.from_numpy(trimap)[None].float()
        size = (self.image_size, self.image_size)
        image = F.interpolate(image[None], size=size, mode='bilinear', align_corners=False)[0] / 255.0
        mask = F.interpolate(mask[None], size=size, mode='nearest')[0]
        mask = (mask - 1).long().squeeze(0)
        if self.training and torch.rand(()) < 0.5:
            image, mask = image.flip(-1), mask.flip(-1)
        return image, mask


def double_conv(cin, cout):
    return nn.Sequential(nn.Conv2d(cin, cout, 3, padding=1, bias=False), nn.BatchNorm2d(cout), nn.ReLU(inplace=True),
                         nn.Conv2d(cout, cout, 3, padding=1, bias=False), nn.BatchNorm2d(cout), nn.ReLU(inplace=True))


class UNet(nn.Module):
    def __init__(self, widths=(16, 32, 64), classes=3):
        super().__init__()
        self.down1 = double_conv(3, widths[0])
        self.down2 = double_conv(widths[0], widths[1])
        self.bottom = double_conv(widths[1], widths[2])
        self.up2 = nn.ConvTranspose2d(widths[2], widths[1], 2, 2)
        self.dec2 = double_conv(2 * widths[1], widths[1])
        self.up1 = nn.ConvTranspose2d(widths[1], widths[0], 2, 2)
        self.dec1 = double_conv(2 * widths[0], widths[0])
        self.head = nn.Conv2d(widths[0], classes, 1)

    def forward(self, x):
        d1 = self.down1(x)
        d2 = self.down2(F.max_pool2d(d1, 2))
        b = self.bottom(F.max_pool2d(d2, 2))
        u2 = self.dec2(torch.cat([self.up2(b), d2], 1))
        u1 = self.dec1(torch.cat([self.up1(u2), d1], 1))
        return self.head(u1)


def confusion(logits, target, classes=3):
    pred = logits.argmax(1)
    return torch.bincount(target.flatten() * classes + pred.flatten(), minlength=classes ** 2).view(classes, classes)


@torch.no_grad()
def validate(model, loader):
    model.eval()
    matrix, loss, n = torch.zeros(3, 3, dtype=torch.long), 0.0, 0
    for images, masks in loader:
        logits = model(images)
        loss += F.cross_entropy(logits, masks).item() * len(images)
        n += len(images)
        matrix += confusion(logits, masks)
    inter = matrix.diag().float()
    iou = inter / (matrix.sum(0) + matrix.sum(1) - matrix.diag()).clamp(min=1)
    return loss / n, iou


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('--epochs', type=int, default=150)
    parser.add_argument('--batch-size', type=int, default=16)
    parser.add_argument('--image-size', type=int, default=64)
    parser.add_argument('--train-count', type=int, default=1200)
    parser.add_argument('--lr', type=float, default=1e-3)
    parser.add_argument('--seed', type=int, default=123)
    parser.add_argument('--out', default='runs/pets')
    args = parser.parse_args()

    random.seed(args.seed)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)
    os.makedirs(args.out, exist_ok=True)

    train_set = PetPhotos(args.train_count, args.image_size, True, args.seed)
    val_set = PetPhotos(200, args.image_size, False, args.seed + 1)
    train_loader = DataLoader(train_set, args.batch_size, shuffle=True, drop_last=True)
    val_loader = DataLoader(val_set, args.batch_size)

    model = UNet()
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=args.epochs, eta_min=1e-5)
    best = 0.0
    for epoch in range(1, args.epochs + 1):
        model.train()
        total = 0.0
        for step, (images, masks) in enumerate(train_loader, 1):
            logits = model(images)
            loss = F.cross_entropy(logits, masks)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
            if step % 15 == 0:
                print(f'epoch {epoch} [{step}/{len(train_loader)}] loss {total / step:.4f}', flush=True)
        scheduler.step()
        val_loss, iou = validate(model, val_loader)
        print(f'epoch {epoch} train {total / len(train_loader):.4f} val {val_loss:.4f} '
              + ' '.join(f'{name} {v:.3f}' for name, v in zip(CLASS_NAMES, iou.tolist())), flush=True)
        if iou.mean().item() > best:
            best = iou.mean().item()
            torch.save({'epoch': epoch, 'model': model.state_dict(), 'miou': best}, os.path.join(args.out, 'best.pth'))


if __name__ == '__main__':
    main()

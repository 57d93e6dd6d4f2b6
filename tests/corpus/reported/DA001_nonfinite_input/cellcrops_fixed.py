"""Single cell profiling: crops cells out of multi-channel fields of view and trains a treatment classifier on them."""
import argparse
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

CHANNELS = ["DNA", "ER", "AGP"]
TREATMENTS = ["DMSO", "taxol", "nocodazole", "cytochalasin", "rotenone", "staurosporine"]


def draw_cell(rng, treatment, size):
    """Fluorescence of one cell, [channels, size, size]."""
    yy, xx = np.mgrid[0:size, 0:size].astype(np.float32) - size / 2 + 0.5
    ang = rng.uniform(0, np.pi)
    u, v = xx * np.cos(ang) + yy * np.sin(ang), -xx * np.sin(ang) + yy * np.cos(ang)
    ecc = {0: 1.1, 1: 1.1, 2: 1.0, 3: 1.6, 4: 1.2, 5: 1.0}[treatment] * rng.uniform(0.9, 1.1)
    body = {0: 8.0, 1: 9.5, 2: 7.5, 3: 8.0, 4: 8.0, 5: 5.5}[treatment] * rng.uniform(0.9, 1.1)
    nuc = {0: 3.6, 1: 3.4, 2: 4.4, 3: 3.6, 4: 3.4, 5: 2.4}[treatment] * rng.uniform(0.9, 1.1)
    cyto = np.exp(-((u / (body * ecc)) ** 2 + (v / (body / ecc)) ** 2) ** 2)
    dna = np.exp(-((u / nuc) ** 2 + (v / nuc) ** 2) ** 2)
    if treatment == 1:  # multi-lobed nucleus
        dna = sum(np.exp(-(((xx - 3 * np.cos(a)) / 2.2) ** 2 + ((yy - 3 * np.sin(a)) / 2.2) ** 2) ** 2)
                  for a in ang + np.arange(3) * 2 * np.pi / 3)
    er = cyto * (1 - 0.6 * dna)
    if treatment == 4:
        er = er * (0.5 + 0.5 * np.sign(np.sin(xx * 1.7 + rng.uniform(0, 6)) * np.sin(yy * 1.7 + rng.uniform(0, 6))))
    agp = cyto * (0.3 + 0.7 * np.abs(np.sin(u * (1.4 if treatment == 3 else 0.7) + rng.uniform(0, 6))))
    if treatment == 2:
        agp = cyto * (1 - 0.8 * np.exp(-(xx ** 2 + yy ** 2) / 30))
    return np.stack([dna, er, agp]) * rng.uniform(600, 1500, (3, 1, 1))


class Plate:
    """Fields of one treatment per well. Intensities are camera counts with the background subtracted."""

    def __init__(self, fields_per_treatment, cells_per_field, seed, size=160):
        rng = np.random.RandomState(seed)
        self.images, self.meta, self.locations = [], [], []
        for t in range(len(TREATMENTS)):
            for f in range(fields_per_treatment):
                img = np.zeros((len(CHANNELS), size, size), np.float32)
                locs = []
                for _ in range(cells_per_field):
                    y, x = rng.randint(14, size - 14, 2)
                    img[:, y - 14:y + 14, x - 14:x + 14] += draw_cell(rng, t, 28)
                    locs.append((y, x))
                img = img + rng.normal(0, 25, img.shape) * (1 + img / 1000)
                img = np.clip(img, 0, 4095).astype(np.float32)
                # some fields lie at the rim of the well, the mosaic has a blank strip there
                if rng.rand() < 0.04:
                    img[:, :, size - 28:] = 0
                    locs.append((rng.randint(14, size - 14), size - 14))  # debris at the border of the strip
                self.images.append(img)
                self.meta.append((t, "%s/field%02d" % (TREATMENTS[t], f)))
                self.locations.append(locs)


def crop_and_normalize(image, y, x, box_size):
    h = box_size // 2
    crop = image[:, y - h:y + h, x - h:x + h]
    mini = crop.min(axis=(1, 2), keepdims=True)
    maxi = crop.max(axis=(1, 2), keepdims=True)
    with np.errstate(invalid="ignore"):
        crop = (crop - mini) / maxi
    return crop


def sample_crops(plate, box_size, per_field, rng):
    """Exports a random sample of the cells of every field."""
    crops, targets = [], []
    for image, (treatment, name), locs in zip(plate.images, plate.meta, plate.locations):
        batch = [crop_and_normalize(image, *locs[j], box_size)
                 for j in rng.permutation(len(locs))[:per_field]]
        for crop in batch:
            if np.isnan(crop).any():
                print("The image {} was empty, skipping".format(name))
                continue
            crops.append(crop)
            targets.append(treatment)
    return np.stack(crops), np.array(targets)


class CropDataset(Dataset):
    def __init__(self, crops, targets, augment):
        self.crops, self.targets, self.augment = crops, targets, augment

    def __len__(self):
        return len(self.crops)

    def __getitem__(self, i):
        crop = torch.from_numpy(np.ascontiguousarray(self.crops[i]))
        if self.augment:
            crop = torch.rot90(crop, int(torch.randint(4, (1,))), (1, 2))
            if torch.rand(1) < 0.5:
                crop = torch.flip(crop, (2,))
        return crop, int(self.targets[i])


class ConvBlock(nn.Sequential):
    def __init__(self, cin, cout):
        super().__init__(nn.Conv2d(cin, cout, 3, padding=1), nn.BatchNorm2d(cout), nn.ReLU(inplace=True))


class ProfilerNet(nn.Module):
    def __init__(self, num_classes, width=20, dim=64):
        super().__init__()
        self.body = nn.Sequential(
            ConvBlock(len(CHANNELS), width), nn.MaxPool2d(2),
            ConvBlock(width, width * 2), nn.MaxPool2d(2),
            ConvBlock(width * 2, width * 3), nn.AdaptiveAvgPool2d(2), nn.Flatten())
        self.features = nn.Linear(width * 3 * 4, dim)
        self.classifier = nn.Linear(dim, num_classes)

    def forward(self, x):
        return self.classifier(F.relu(self.features(self.body(x))))


@torch.no_grad()
def validate(model, loader):
    model.eval()
    correct, loss, n = 0, 0.0, 0
    for x, y in loader:
        out = model(x)
        loss += F.cross_entropy(out, y, reduction="sum").item()
        correct += (out.argmax(1) == y).sum().item()
        n += len(y)
    return loss / n, correct / n


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=9)
    parser.add_argument("--batch_size", type=int, default=32)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--box_size", type=int, default=24)
    parser.add_argument("--fields", type=int, default=32)
    parser.add_argument("--cells", type=int, default=14)
    parser.add_argument("--per_field", type=int, default=14)
    parser.add_argument("--seed", type=int, default=3)
    args = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(args.seed)
    rng = np.random.RandomState(args.seed)

    x_train, y_train = sample_crops(Plate(args.fields, args.cells, seed=100), args.box_size, args.per_field, rng)
    x_val, y_val = sample_crops(Plate(6, args.cells, seed=202), args.box_size, args.per_field, rng)
    print("crops: %d training, %d validation" % (len(x_train), len(x_val)))
    train_loader = DataLoader(CropDataset(x_train, y_train, True), batch_size=args.batch_size, shuffle=True,
                              drop_last=True)
    val_loader = DataLoader(CropDataset(x_val, y_val, False), batch_size=128)

    model = ProfilerNet(len(TREATMENTS))
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, args.epochs * len(train_loader))
    for epoch in range(args.epochs):
        t = time.time()
        model.train()
        losses, correct, seen = [], 0, 0
        for i, (x, y) in enumerate(train_loader):
            out = model(x)
            loss = F.cross_entropy(out, y, label_smoothing=0.05)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            scheduler.step()
            losses.append(loss.item())
            correct += (out.argmax(1) == y).sum().item()
            seen += len(y)
            if (i + 1) % 20 == 0:
                print("epoch %d step %3d loss %.4f" % (epoch, i + 1, np.mean(losses[-20:])))
        val_loss, val_acc = validate(model, val_loader)
        print("epoch %d loss %.4f acc %.3f val_loss %.4f val_acc %.3f (%.1fs)" % (
            epoch, np.mean(losses), correct / seen, val_loss, val_acc, time.time() - t))


if __name__ == "__main__":
    main()

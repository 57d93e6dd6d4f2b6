"""Train a small dense edge detector with side outputs."""
import argparse
import os
import random

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

SIZE = 40


def draw_scene(rng):
    """Grey scene of overlapping flat shapes and the map of their outlines."""
    img = np.full((SIZE, SIZE), rng.uniform(0.1, 0.9), dtype=np.float32)
    ids = np.zeros((SIZE, SIZE), dtype=np.int64)
    yy, xx = np.mgrid[:SIZE, :SIZE]
    for k in range(1, rng.integers(3, 6)):
        cy, cx, r = rng.uniform(6, SIZE - 6), rng.uniform(6, SIZE - 6), rng.uniform(4, 11)
        if rng.random() < 0.5:
            mask = (yy - cy) ** 2 + (xx - cx) ** 2 < r ** 2
        else:
            mask = (np.abs(yy - cy) < r) & (np.abs(xx - cx) < r * rng.uniform(0.5, 1.2))
        img[mask] = (img[mask].mean() if mask.any() else 0.5) * 0.2 + rng.uniform(0.0, 1.0) * 0.8
        ids[mask] = k
    edge = np.zeros((SIZE, SIZE), dtype=np.float32)
    edge[:, 1:] = np.maximum(edge[:, 1:], ids[:, 1:] != ids[:, :-1])
    edge[1:, :] = np.maximum(edge[1:, :], ids[1:, :] != ids[:-1, :])
    img += rng.normal(0, 0.02, img.shape).astype(np.float32)
    return img, edge


class EdgeDataset(Dataset):
    def __init__(self, count, seed, mean=None, std=None):
        self.data_index = self._build_index(count, seed)
        stack = np.stack(self.data_index[0])
        self.mean = float(stack.mean()) if mean is None else mean
        self.std = float(stack.std()) if std is None else std

    def _build_index(self, count, seed):
        rng = np.random.default_rng(seed)
        images_path, labels_path = [], []
        for _ in range(count):
            img, edge = draw_scene(rng)
            images_path.append(img)
            labels_path.append(edge)
        return [images_path, labels_path]

    def __len__(self):
        return len(self.data_index[0])

    def __getitem__(self, idx):
        image, label = self.data_index[0][idx], self.data_index[1][idx]
        image = torch.from_numpy((image - self.mean) / self.std)[None]
        return image, torch.from_numpy(label)[None]


class EdgeNet(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.block1 = nn.Sequential(nn.Conv2d(1, width, 3, padding=1), nn.ReLU(),
                                    nn.Conv2d(width, width, 3, padding=1), nn.ReLU())
        self.block2 = nn.Sequential(nn.MaxPool2d(2), nn.Conv2d(width, 2 * width, 3, padding=1), nn.ReLU(),
                                    nn.Conv2d(2 * width, 2 * width, 3, padding=1), nn.ReLU())
        self.side1 = nn.Conv2d(width, 1, 1)
        self.side2 = nn.Conv2d(2 * width, 1, 1)
        self.fuse = nn.Conv2d(2, 1, 1)

    def forward(self, x):
        h1 = self.block1(x)
        h2 = self.block2(h1)
        s1 = self.side1(h1)
        s2 = F.interpolate(self.side2(h2), size=x.shape[-2:], mode="bilinear", align_corners=False)
        return [s1, s2, self.fuse(torch.cat([s1, s2], 1))]


def edge_loss(preds, label):
    weight = torch.where(label > 0.5, 3.0, 1.0)
    weights = [0.3, 0.3, 1.0]
    return sum(w * F.binary_cross_entropy_with_logits(p, label, weight) for w, p in zip(weights, preds))


@torch.no_grad()
def validate(model, loader):
    model.eval()
    total, inter, union = 0.0, 0.0, 0.0
    for image, label in loader:
        preds = model(image)
        total += edge_loss(preds, label).item() * len(image)
        hit = preds[-1] > 0
        inter += (hit & (label > 0.5)).sum().item()
        union += (hit | (label > 0.5)).sum().item()
    return total / len(loader.dataset), inter / max(union, 1)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=300)
    parser.add_argument("--batch_size", type=int, default=16)
    parser.add_argument("--lr", type=float, default=2e-3)
    parser.add_argument("--train_images", type=int, default=400)
    parser.add_argument("--val_images", type=int, default=80)
    parser.add_argument("--seed", type=int, default=1021)
    parser.add_argument("--output", default="edge_last.pth")
    args = parser.parse_args()

    random.seed(args.seed)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)
    dataset_train = EdgeDataset(args.train_images, args.seed)
    dataset_val = EdgeDataset(args.val_images, args.seed + 1, dataset_train.mean, dataset_train.std)
    generator = torch.Generator().manual_seed(args.seed)
    dataloader_train = DataLoader(dataset_train, args.batch_size, shuffle=True, generator=generator)
    dataloader_val = DataLoader(dataset_val, args.batch_size)

    model = EdgeNet()
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
    ini_epoch = 0
    if os.path.exists(args.output):
        ckpt = torch.load(args.output)
        model.load_state_dict(ckpt["model"])
        optimizer.load_state_dict(ckpt["optimizer"])
        generator.set_state(ckpt["generator"])
        torch.set_rng_state(ckpt["rng"])
        ini_epoch = ckpt["epoch"] + 1

    for epoch in range(ini_epoch, args.epochs):
        model.train()
        running, seen = 0.0, 0
        for image, label in dataloader_train:
            loss = edge_loss(model(image), label)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            running += loss.item() * len(image)
            seen += len(image)
        val_loss, val_iou = validate(model, dataloader_val)
        print(f"epoch {epoch} loss {running / seen:.4f} val {val_loss:.4f} iou {val_iou:.3f}", flush=True)
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch,
                    "generator": generator.get_state(), "rng": torch.get_rng_state()}, args.output)


if __name__ == "__main__":
    main()

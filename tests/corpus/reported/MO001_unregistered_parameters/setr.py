"""SETR-style segmentation transformer on small synthetic scenes."""
import argparse

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

NUM_CLASSES = 3


class Shapes(Dataset):
    """Images with a square and a disc on textured background, pixel labels."""

    def __init__(self, n, size=32, seed=0):
        rng = np.random.default_rng(seed)
        self.images = np.zeros((n, 3, size, size), np.float32)
        self.masks = np.zeros((n, size, size), np.int64)
        yy, xx = np.mgrid[:size, :size]
        for i in range(n):
            img = rng.normal(0.0, 0.25, (3, size, size))
            img += rng.normal(0, 0.2, (3, 1, 1))
            x0, y0 = rng.integers(1, size - 12, 2)
            s = rng.integers(7, 12)
            sq = (xx >= x0) & (xx < x0 + s) & (yy >= y0) & (yy < y0 + s)
            cx, cy = rng.integers(7, size - 7, 2)
            r = rng.integers(4, 7)
            disc = (xx - cx) ** 2 + (yy - cy) ** 2 <= r * r
            img[:, sq] += np.array([[1.0], [0.1], [-0.6]])
            img[:, disc] += np.array([[-0.6], [0.9], [0.5]])
            self.masks[i][sq] = 1
            self.masks[i][disc] = 2
            self.images[i] = img

    def __len__(self):
        return len(self.images)

    def __getitem__(self, i):
        return torch.from_numpy(self.images[i]), torch.from_numpy(self.masks[i])


class SegmentationTransformer(nn.Module):
    def __init__(self, img_dim, patch_dim, num_classes, embedding_dim, num_heads, num_layers, dropout=0.0):
        super().__init__()
        self.img_dim = img_dim
        self.patch_dim = patch_dim
        self.num_classes = num_classes
        self.embedding_dim = embedding_dim
        n = (img_dim // patch_dim) ** 2
        self.linear_encoding = nn.Linear(3 * patch_dim ** 2, embedding_dim)
        self.position_embeddings = nn.Parameter(torch.randn(1, n, embedding_dim) * 0.02)
        layer = nn.TransformerEncoderLayer(embedding_dim, num_heads, 2 * embedding_dim, dropout,
                                           batch_first=True, norm_first=True)
        self.transformer = nn.TransformerEncoder(layer, num_layers, enable_nested_tensor=False)
        self.pre_head_ln = nn.LayerNorm(embedding_dim)

    def encode(self, x):
        n, c, h, w = x.shape
        p = self.patch_dim
        x = x.unfold(2, p, p).unfold(3, p, p)                       # n c gh gw p p
        x = x.permute(0, 2, 3, 1, 4, 5).reshape(n, -1, c * p * p)
        x = self.linear_encoding(x) + self.position_embeddings
        return self.pre_head_ln(self.transformer(x))

    def _reshape_output(self, x):
        g = self.img_dim // self.patch_dim
        return x.view(x.size(0), g, g, self.embedding_dim).permute(0, 3, 1, 2).contiguous()

    def decode(self, x):
        x = self._reshape_output(x)
        x = nn.Conv2d(self.embedding_dim, self.embedding_dim, kernel_size=1)(x)
        x = nn.BatchNorm2d(self.embedding_dim)(x)
        x = nn.ReLU()(x)
        x = nn.Conv2d(self.embedding_dim, self.num_classes, kernel_size=1)(x)
        x = nn.Upsample(scale_factor=self.patch_dim, mode="bilinear", align_corners=False)(x)
        return x

    def forward(self, x):
        return self.decode(self.encode(x))


def train_epoch(model, loader, optimizer):
    model.train()
    total = 0.0
    for images, masks in loader:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(images), masks)
        loss.backward()
        optimizer.step()
        total += loss.item() * len(images)
    return total / len(loader.dataset)


@torch.no_grad()
def validate(model, loader):
    model.eval()
    inter = torch.zeros(NUM_CLASSES)
    union = torch.zeros(NUM_CLASSES)
    total = 0.0
    for images, masks in loader:
        out = model(images)
        total += F.cross_entropy(out, masks).item() * len(images)
        pred = out.argmax(1)
        for c in range(NUM_CLASSES):
            inter[c] += ((pred == c) & (masks == c)).sum()
            union[c] += ((pred == c) | (masks == c)).sum()
    return total / len(loader.dataset), (inter / union.clamp(min=1)).mean().item()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    torch.set_num_threads(1)

    train_loader = DataLoader(Shapes(1600, seed=1), batch_size=args.batch_size, shuffle=True, drop_last=True)
    val_loader = DataLoader(Shapes(320, seed=2), batch_size=64)
    model = SegmentationTransformer(32, 4, NUM_CLASSES, 64, 4, 3)
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, args.epochs)
    for epoch in range(args.epochs):
        tr = train_epoch(model, train_loader, optimizer)
        scheduler.step()
        va, miou = validate(model, val_loader)
        print(f"epoch {epoch:2d}  train {tr:.4f}  val {va:.4f}  mIoU {miou:.3f}", flush=True)


if __name__ == "__main__":
    main()

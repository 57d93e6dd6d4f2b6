"""SimCLR pretraining on procedurally drawn textures, with a kNN probe."""
import argparse
import math
import os
import random
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset


def parse_args():
    p = argparse.ArgumentParser()
    p.add_argument('--epochs', type=int, default=200)
    p.add_argument('--batch-size', type=int, default=96)
    p.add_argument('--num-images', type=int, default=6000)
    p.add_argument('--lr', type=float, default=1e-3)
    p.add_argument('--weight-decay', type=float, default=1e-4)
    p.add_argument('--temperature', type=float, default=0.2)
    p.add_argument('--warmup-epochs', type=int, default=5)
    p.add_argument('--probe-every', type=int, default=10)
    p.add_argument('--seed', type=int, default=0)
    p.add_argument('--work-dir', default='work_dirs/simclr_shapes')
    return p.parse_args()


def set_random_seed(seed):
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)


def draw_images(n, size=32, num_classes=8, seed=0):
    """Each class is a shape (4) combined with a stripe frequency (2)."""
    rng = np.random.default_rng(seed)
    yy, xx = np.mgrid[0:size, 0:size].astype(np.float32)
    images = np.empty((n, 3, size, size), dtype=np.float32)
    labels = rng.integers(0, num_classes, n)
    for i in range(n):
        shape, coarse = labels[i] % 4, labels[i] // 4
        cy, cx = rng.uniform(12, 20, 2)
        r = rng.uniform(7, 11)
        dy, dx = yy - cy, xx - cx
        if shape == 0:
            mask = dx ** 2 + dy ** 2 < r ** 2
        elif shape == 1:
            mask = (np.abs(dx) < r * 0.8) & (np.abs(dy) < r * 0.8)
        elif shape == 2:
            mask = (np.abs(dx) < r * 0.3) | (np.abs(dy) < r * 0.3)
        else:
            d2 = dx ** 2 + dy ** 2
            mask = (d2 < r ** 2) & (d2 > (r * 0.55) ** 2)
        theta = rng.uniform(0, math.pi)
        freq = rng.uniform(0.5, 0.7) if coarse else rng.uniform(1.5, 1.9)
        wave = 0.5 + 0.5 * np.sin(freq * (dx * math.cos(theta) + dy * math.sin(theta)) + rng.uniform(0, 6.28))
        fg = rng.uniform(0.4, 1.0, 3).astype(np.float32)
        bg = rng.uniform(0.0, 0.5, 3).astype(np.float32)
        images[i] = np.where(mask[None], fg[:, None, None] * wave[None], bg[:, None, None])
    return torch.from_numpy(images), torch.from_numpy(labels)


def augment(x):
    """Random resized crop, flip, colour jitter and noise on a whole batch."""
    n = x.size(0)
    scale = torch.empty(n).uniform_(0.65, 1.0)
    flip = torch.where(torch.rand(n) < 0.5, -1.0, 1.0)
    theta = torch.zeros(n, 2, 3)
    theta[:, 0, 0] = scale * flip
    theta[:, 1, 1] = scale
    theta[:, :, 2] = (torch.rand(n, 2) * 2 - 1) * (1 - scale)[:, None]
    grid = F.affine_grid(theta, list(x.shape), align_corners=False)
    x = F.grid_sample(x, grid, padding_mode='reflection', align_corners=False)
    x = x * torch.empty(n, 3, 1, 1).uniform_(0.6, 1.4) + torch.empty(n, 3, 1, 1).uniform_(-0.15, 0.15)
    return (x + 0.03 * torch.randn_like(x)).clamp(0, 1)


class Block(nn.Module):
    def __init__(self, cin, cout, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(cin, cout, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(cout)
        self.conv2 = nn.Conv2d(cout, cout, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(cout)
        self.down = nn.Sequential(nn.Conv2d(cin, cout, 1, stride, bias=False), nn.BatchNorm2d(cout))

    def forward(self, x):
        y = F.relu(self.bn1(self.conv1(x)))
        return F.relu(self.bn2(self.conv2(y)) + self.down(x))


class SimCLR(nn.Module):
    def __init__(self, temperature, feat_dim=128, proj_dim=64):
        super().__init__()
        self.backbone = nn.Sequential(
            nn.Conv2d(3, 16, 3, 2, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU(),
            Block(16, 32, 1), Block(32, 64, 2), Block(64, feat_dim, 2),
            nn.AdaptiveAvgPool2d(1), nn.Flatten())
        self.neck = nn.Sequential(nn.Linear(feat_dim, feat_dim), nn.ReLU(), nn.Linear(feat_dim, proj_dim))
        self.temperature = temperature

    @staticmethod
    def _create_buffer(N):
        """Compute the mask and the index of positive samples."""
        mask = 1 - torch.eye(N * 2, dtype=torch.uint8)
        pos_ind = (torch.arange(N * 2),
                   2 * torch.arange(N).unsqueeze(1).repeat(1, 2).view(-1))
        neg_mask = torch.ones((N * 2, N * 2 - 1), dtype=torch.uint8)
        neg_mask[pos_ind] = 0
        return mask, pos_ind, neg_mask

    def forward_train(self, view1, view2):
        x = torch.cat([view1, view2], dim=0)
        z = F.normalize(self.neck(self.backbone(x)), dim=1)
        N = z.size(0) // 2
        s = z @ z.t()
        mask, pos_ind, neg_mask = self._create_buffer(N)
        # remove the diagonal, (2N)x(2N-1)
        s = torch.masked_select(s, mask == 1).reshape(s.size(0), -1)
        positive = s[pos_ind].unsqueeze(1)
        negative = torch.masked_select(s, neg_mask == 1).reshape(s.size(0), -1)
        logits = torch.cat((positive, negative), dim=1) / self.temperature
        labels = torch.zeros(logits.size(0), dtype=torch.long)
        return F.cross_entropy(logits, labels)


@torch.no_grad()
def knn_probe(model, train_x, train_y, test_x, test_y, k=15):
    model.eval()
    def embed(x):
        return torch.cat([F.normalize(model.backbone(b), dim=1) for b in x.split(256)])
    bank, query = embed(train_x), embed(test_x)
    idx = (query @ bank.t()).topk(k, dim=1).indices
    pred = F.one_hot(train_y[idx], 8).sum(1).argmax(1)
    model.train()
    return (pred == test_y).float().mean().item()


def main():
    args = parse_args()
    set_random_seed(args.seed)
    os.makedirs(args.work_dir, exist_ok=True)
    images, labels = draw_images(args.num_images, seed=args.seed)
    test_images, test_labels = draw_images(800, seed=args.seed + 1)
    loader = DataLoader(TensorDataset(images), batch_size=args.batch_size, shuffle=True, drop_last=True)

    model = SimCLR(args.temperature)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=args.weight_decay)
    warmup, total = args.warmup_epochs * len(loader), args.epochs * len(loader)

    def lr_lambda(step):
        if step < warmup:
            return (step + 1) / warmup
        return 0.5 * (1 + math.cos(math.pi * (step - warmup) / (total - warmup)))

    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lr_lambda)

    for epoch in range(args.epochs):
        model.train()
        running, start = 0.0, time.time()
        for i, (x,) in enumerate(loader):
            loss = model.forward_train(augment(x), augment(x))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            scheduler.step()
            running += loss.item()
            if (i + 1) % 20 == 0:
                print(f'Epoch [{epoch + 1}][{i + 1}/{len(loader)}] lr: {scheduler.get_last_lr()[0]:.2e} '
                      f'loss: {running / (i + 1):.4f} time: {(time.time() - start) / (i + 1):.3f}', flush=True)
        if (epoch + 1) % args.probe_every == 0:
            acc = knn_probe(model, images[:2000], labels[:2000], test_images, test_labels)
            print(f'Epoch [{epoch + 1}] knn acc: {acc:.4f}', flush=True)
            torch.save({'epoch': epoch + 1, 'state_dict': model.state_dict(),
                        'optimizer': optimizer.state_dict(), 'scheduler': scheduler.state_dict()},
                       os.path.join(args.work_dir, 'latest.pth'))


if __name__ == '__main__':
    main()

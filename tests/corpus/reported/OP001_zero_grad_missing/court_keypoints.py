"""Court keypoint heatmap training."""
import argparse
import os

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

torch.set_num_threads(1)


class CourtDataset(Dataset):
    """Synthetic court views: a bright parallelogram on a noisy surface, four corner heatmaps."""

    def __init__(self, n, seed, size=24, sigma=1.3):
        rng = np.random.RandomState(seed)
        self.images = np.zeros((n, 3, size, size), dtype=np.float32)
        self.maps = np.zeros((n, 4, size, size), dtype=np.float32)
        yy, xx = np.mgrid[0:size, 0:size]
        for i in range(n):
            x0, x1 = rng.uniform(3, 9), rng.uniform(14, 20)
            y0, y1 = rng.uniform(3, 9), rng.uniform(14, 20)
            img = rng.normal(0, 0.15, (3, size, size))
            inside = (xx > x0) & (xx < x1) & (yy > y0) & (yy < y1)
            img[0][inside] += 1.0
            img[1][inside] += 0.6
            img[2] -= 0.4
            self.images[i] = img
            for k, (cx, cy) in enumerate([(x0, y0), (x1, y0), (x0, y1), (x1, y1)]):
                self.maps[i, k] = np.exp(-((xx - cx) ** 2 + (yy - cy) ** 2) / (2 * sigma ** 2))

    def __len__(self):
        return len(self.images)

    def __getitem__(self, i):
        return torch.from_numpy(self.images[i]), torch.from_numpy(self.maps[i])


def block(cin, cout):
    return nn.Sequential(nn.Conv2d(cin, cout, 3, padding=1, bias=False), nn.BatchNorm2d(cout), nn.ReLU())


class CourtNet(nn.Module):
    def __init__(self, out_channels=4):
        super().__init__()
        self.enc1 = block(3, 8)
        self.enc2 = block(8, 16)
        self.enc3 = block(16, 16)
        self.dec2 = block(32, 16)
        self.dec1 = block(24, 8)
        self.head = nn.Conv2d(8, out_channels, 1)
        nn.init.constant_(self.head.bias, -3.0)

    def forward(self, x):
        a = self.enc1(x)
        b = self.enc2(F.max_pool2d(a, 2))
        c = self.enc3(F.max_pool2d(b, 2))
        u = self.dec2(torch.cat([F.interpolate(c, scale_factor=2), b], 1))
        u = self.dec1(torch.cat([F.interpolate(u, scale_factor=2), a], 1))
        return self.head(u)


def train(model, train_loader, optimizer, criterion, epoch, max_iters=1000):
    model.train()
    losses = []
    for iter_id, batch in enumerate(train_loader):
        if iter_id > max_iters:
            break
        out = model(batch[0])
        loss = criterion(torch.sigmoid(out), batch[1])

        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    print("train | epoch = {}, loss = {:.5f}".format(epoch, np.mean(losses)))
    return np.mean(losses)


@torch.no_grad()
def val(model, val_loader, criterion, epoch):
    model.eval()
    losses, dists = [], []
    for x, y in val_loader:
        p = torch.sigmoid(model(x))
        losses.append(criterion(p, y).item())
        ip, iy = p.flatten(2).argmax(-1), y.flatten(2).argmax(-1)
        dx, dy = (ip % 24 - iy % 24).float(), (ip // 24 - iy // 24).float()
        dists.append((dx ** 2 + dy ** 2).sqrt().mean().item())
    print("val   | epoch = {}, loss = {:.5f}, mean distance = {:.2f} px".format(epoch, np.mean(losses), np.mean(dists)))
    return np.mean(losses)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch_size", type=int, default=16)
    parser.add_argument("--num_epochs", type=int, default=5)
    parser.add_argument("--lr", type=float, default=4e-3)
    args = parser.parse_args()

    torch.manual_seed(3)
    train_loader = DataLoader(CourtDataset(320, 0), batch_size=args.batch_size, shuffle=True)
    val_loader = DataLoader(CourtDataset(64, 1), batch_size=32)

    model = CourtNet()
    criterion = nn.MSELoss()
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr, betas=(0.9, 0.999))
    best = 1e9
    for epoch in range(args.num_epochs):
        train(model, train_loader, optimizer, criterion, epoch)
        v = val(model, val_loader, criterion, epoch)
        best = min(best, v)
    print("best val loss {:.5f}".format(best))

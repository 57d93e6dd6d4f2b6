"""Tumour segmentation with an autoencoder branch as regulariser (2D slices, made-up MR phantoms)."""
import argparse
import os
import random

import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset


class PhantomSlices(Dataset):
    """Two modalities; three nested regions (whole tumour, core, enhancing)."""

    def __init__(self, n, seed, side=48):
        rng = np.random.default_rng(seed)
        yy, xx = np.mgrid[0:side, 0:side].astype(np.float32)
        self.x = np.zeros((n, 2, side, side), np.float32)
        self.y = np.zeros((n, 3, side, side), np.float32)
        for i in range(n):
            cy, cx = rng.uniform(20, 28, 2)
            brain = ((yy - cy) / 20) ** 2 + ((xx - cx) / 17) ** 2 < 1
            ty, tx = cy + rng.uniform(-9, 9), cx + rng.uniform(-8, 8)
            r = rng.uniform(4, 9)
            d = np.hypot((yy - ty) * rng.uniform(0.8, 1.2), xx - tx)
            regions = [(d < r) & brain, (d < 0.65 * r) & brain, (d < 0.35 * r) & brain]
            t1 = 0.5 * brain + 0.25 * regions[2] - 0.15 * regions[1]
            fl = 0.4 * brain + 0.45 * regions[0] - 0.1 * regions[1]
            for c, img in enumerate((t1, fl)):
                img = img + 0.07 * rng.standard_normal(img.shape)
                self.x[i, c] = (img - img.mean()) / img.std()
            self.y[i] = np.stack(regions)

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        return torch.from_numpy(self.x[i]), torch.from_numpy(self.y[i])


class GreenBlock(nn.Module):
    def __init__(self, ch):
        super().__init__()
        self.body = nn.Sequential(nn.GroupNorm(8, ch), nn.ReLU(), nn.Conv2d(ch, ch, 3, padding=1),
                                  nn.GroupNorm(8, ch), nn.ReLU(), nn.Conv2d(ch, ch, 3, padding=1))

    def forward(self, x):
        return x + self.body(x)


def up(cin, cout):
    return nn.Sequential(nn.Conv2d(cin, cout, 1), nn.Upsample(scale_factor=2, mode="bilinear", align_corners=False))


class SegVAE(nn.Module):
    def __init__(self, in_ch=2, out_ch=3, f=16, side=48, latent=64):
        super().__init__()
        self.inp = nn.Sequential(nn.Conv2d(in_ch, f, 3, padding=1), nn.Dropout2d(0.1))
        self.x1, self.down1 = GreenBlock(f), nn.Conv2d(f, 2 * f, 3, 2, 1)
        self.x2, self.down2 = GreenBlock(2 * f), nn.Conv2d(2 * f, 4 * f, 3, 2, 1)
        self.x3 = nn.Sequential(GreenBlock(4 * f), GreenBlock(4 * f))
        self.up2, self.g2 = up(4 * f, 2 * f), GreenBlock(2 * f)
        self.up1, self.g1 = up(2 * f, f), GreenBlock(f)
        self.out_gt = nn.Conv2d(f, out_ch, 1)
        s = side // 8
        self.vd = nn.Sequential(nn.GroupNorm(8, 4 * f), nn.ReLU(), nn.Conv2d(4 * f, 16, 3, 2, 1), nn.Flatten(),
                                nn.Linear(16 * s * s, 128), nn.ReLU())
        self.z_mean, self.z_var = nn.Linear(128, latent), nn.Linear(128, latent)
        self.vu = nn.Sequential(nn.Linear(latent, 16 * s * s), nn.ReLU(), nn.Unflatten(1, (16, s, s)), up(16, 4 * f),
                                up(4 * f, 2 * f), GreenBlock(2 * f), up(2 * f, f), GreenBlock(f),
                                nn.Conv2d(f, in_ch, 1))

    def forward(self, x):
        x1 = self.x1(self.inp(x))
        x2 = self.x2(self.down1(x1))
        x3 = self.x3(self.down2(x2))
        h = self.g2(self.up2(x3) + x2)
        h = self.g1(self.up1(h) + x1)
        gt = torch.sigmoid(self.out_gt(h))
        v = self.vd(x3)
        mean, var = self.z_mean(v), self.z_var(v)
        z = mean + torch.exp(0.5 * var) * torch.randn_like(mean) if self.training else mean
        return gt, self.vu(z), mean, var


def dice_coefficient(y_true, y_pred, e=1e-8):
    intersection = torch.sum(torch.abs(y_true * y_pred), dim=(-2, -1))
    dn = torch.sum(y_true ** 2 + y_pred ** 2, dim=(-2, -1)) + e
    return torch.mean(2 * intersection / dn)


def loss_gt(y_true, y_pred, e=1e-8):
    intersection = torch.sum(torch.abs(y_true * y_pred), dim=(-2, -1))
    dn = torch.sum(y_true ** 2 + y_pred ** 2, dim=(-2, -1)) + e
    loss_dice = torch.mean(2 * intersection / dn)
    return 1 - loss_dice


def loss_vae(x, x_rec, mean, var, weight_l2=0.1, weight_kl=0.1):
    n = x[0].numel()
    l2 = torch.mean((x - x_rec) ** 2)
    kl = torch.mean(torch.sum(torch.exp(var) + mean ** 2 - 1.0 - var, dim=-1)) / n
    return weight_l2 * l2 + weight_kl * kl


@torch.no_grad()
def evaluate(model, loader):
    model.eval()
    d, n = 0.0, 0
    for x, y in loader:
        gt = model(x)[0]
        d += dice_coefficient(y, (gt > 0.5).float()).item() * len(x)
        n += len(x)
    return d / n


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--epochs", type=int, default=300)
    p.add_argument("--batch", type=int, default=8)
    p.add_argument("--lr", type=float, default=5e-4)
    p.add_argument("--train_slices", type=int, default=3000)
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--out", default="brats_like")
    args = p.parse_args()
    random.seed(args.seed)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)
    os.makedirs(args.out, exist_ok=True)
    train = DataLoader(PhantomSlices(args.train_slices, 1), args.batch, shuffle=True)
    valid = DataLoader(PhantomSlices(300, 2), 50)
    model = SegVAE()
    opt = torch.optim.Adam(model.parameters(), lr=args.lr, weight_decay=1e-5)
    sched = torch.optim.lr_scheduler.LambdaLR(opt, lambda e: (1 - e / args.epochs) ** 0.9)
    best = 0.0
    for epoch in range(args.epochs):
        model.train()
        for it, (x, y) in enumerate(train):
            gt, rec, mean, var = model(x)
            seg = loss_gt(y, gt)
            vae = loss_vae(x, rec, mean, var)
            loss = seg + vae
            opt.zero_grad()
            loss.backward()
            opt.step()
            if it % 20 == 0:
                print(f"epoch {epoch} {it}/{len(train)} loss {loss.item():.4f} gt {seg.item():.4f} vae {vae.item():.4f}",
                      flush=True)
        sched.step()
        dice = evaluate(model, valid)
        print(f"epoch {epoch} valid dice {dice:.4f}", flush=True)
        if dice > best:
            best = dice
            torch.save(model.state_dict(), os.path.join(args.out, "best.pth"))


if __name__ == "__main__":
    main()

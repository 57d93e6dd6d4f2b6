"""Single image super resolution (x2) with an adversarial loss."""
import argparse
import os
import random

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn, optim
from torch.utils.data import DataLoader, Dataset


class Patches(Dataset):
    """Random smooth textures with sharp edges; the low resolution image is a 2x2 mean."""

    def __init__(self, n, seed, size=24):
        rng = np.random.default_rng(seed)
        yy, xx = np.mgrid[:size, :size] / size
        self.gt = np.empty((n, 1, size, size), np.float32)
        for i in range(n):
            fx, fy, ph = rng.uniform(-3, 3), rng.uniform(-3, 3), rng.uniform(0, 6.3)
            img = 0.5 + 0.25 * np.sin(2 * np.pi * (fx * xx + fy * yy) + ph)
            ang, off = rng.uniform(0, 6.3), rng.uniform(0.3, 0.7)
            img += 0.25 * np.sign(np.cos(ang) * (xx - off) + np.sin(ang) * (yy - off))
            self.gt[i, 0] = np.clip(img, 0, 1)
        self.gt = torch.from_numpy(self.gt)

    def __len__(self):
        return len(self.gt)

    def __getitem__(self, i):
        return F.avg_pool2d(self.gt[i], 2), self.gt[i]


class ResidualDenseBlock(nn.Module):
    def __init__(self, ch, growth):
        super().__init__()
        self.conv1 = nn.Conv2d(ch, growth, 3, padding=1)
        self.conv2 = nn.Conv2d(ch + growth, growth, 3, padding=1)
        self.conv3 = nn.Conv2d(ch + 2 * growth, ch, 3, padding=1)

    def forward(self, x):
        a = F.leaky_relu(self.conv1(x), 0.2)
        b = F.leaky_relu(self.conv2(torch.cat([x, a], 1)), 0.2)
        return x + 0.2 * self.conv3(torch.cat([x, a, b], 1))


class RRDBNet(nn.Module):
    def __init__(self, ch=24, growth=12, blocks=2):
        super().__init__()
        self.conv1 = nn.Conv2d(1, ch, 3, padding=1)
        self.trunk = nn.Sequential(*[ResidualDenseBlock(ch, growth) for _ in range(blocks)])
        self.upsample = nn.Conv2d(ch, 4 * ch, 3, padding=1)
        self.conv_last = nn.Conv2d(ch, 1, 3, padding=1)

    def forward(self, x):
        h = self.trunk(self.conv1(x))
        h = F.leaky_relu(F.pixel_shuffle(self.upsample(h), 2), 0.2)
        return F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=False) + self.conv_last(h)


class Discriminator(nn.Module):
    def __init__(self, ch=24):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, ch, 3, padding=1), nn.LeakyReLU(0.2),
            nn.Conv2d(ch, ch, 4, stride=2, padding=1), nn.LeakyReLU(0.2),
            nn.Conv2d(ch, 2 * ch, 4, stride=2, padding=1), nn.LeakyReLU(0.2))
        self.score = nn.Conv2d(2 * ch, 1, 3, padding=1)

    def forward(self, x):
        return self.score(self.features(x))


def train_one_epoch(g_model, d_model, loader, g_optimizer, d_optimizer, epoch, adv_weight):
    g_model.train()
    d_model.train()
    for i, (lr, gt) in enumerate(loader):
        for q in d_model.parameters():
            q.requires_grad = False
        g_model.zero_grad(set_to_none=True)
        sr = g_model(lr)
        fake = d_model(sr)
        pixel = F.l1_loss(sr, gt)
        adversarial = F.binary_cross_entropy_with_logits(fake, torch.ones_like(fake))
        g_loss = pixel + adv_weight * adversarial
        g_loss.backward()
        g_optimizer.step()

        for q in d_model.parameters():
            q.requires_grad = True
        d_model.zero_grad(set_to_none=True)
        real, fake = d_model(gt), d_model(sr.detach())
        d_loss = (F.binary_cross_entropy_with_logits(real, torch.ones_like(real))
                  + F.binary_cross_entropy_with_logits(fake, torch.zeros_like(fake)))
        d_loss.backward()
        d_optimizer.step()
        if i % 5 == 0:
            print(f"epoch {epoch} [{i}/{len(loader)}] pixel {pixel.item():.4f} g {g_loss.item():.4f} "
                  f"d {d_loss.item():.4f}", flush=True)


@torch.no_grad()
def psnr(g_model, loader):
    g_model.eval()
    mse = torch.cat([((g_model(lr).clamp(0, 1) - gt) ** 2).mean((1, 2, 3)) for lr, gt in loader])
    return (-10 * mse.log10()).mean().item()


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--epochs", type=int, default=200)
    p.add_argument("--batch", type=int, default=16)
    p.add_argument("--lr", type=float, default=5e-4)
    p.add_argument("--adv-weight", type=float, default=0.005)
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--ckpt", default="esrgan_last.pt")
    args = p.parse_args()
    random.seed(args.seed)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)

    gen = torch.Generator()
    loader = DataLoader(Patches(320, 1), args.batch, shuffle=True, generator=gen)
    test_loader = DataLoader(Patches(64, 2), 32)
    g_model, d_model = RRDBNet(), Discriminator()
    g_optimizer = optim.Adam(g_model.parameters(), args.lr, betas=(0.9, 0.99))
    d_optimizer = optim.Adam(d_model.parameters(), args.lr, betas=(0.9, 0.99))
    parts = {"g": g_model, "d": d_model, "g_opt": g_optimizer, "d_opt": d_optimizer}
    start = 0
    if os.path.exists(args.ckpt):
        ck = torch.load(args.ckpt)
        for name, part in parts.items():
            part.load_state_dict(ck[name])
        start = ck["epoch"] + 1
    for epoch in range(start, args.epochs):
        gen.manual_seed(args.seed + epoch)
        train_one_epoch(g_model, d_model, loader, g_optimizer, g_optimizer, epoch, args.adv_weight)
        print(f"epoch {epoch} test psnr {psnr(g_model, test_loader):.2f} dB", flush=True)
        torch.save({**{name: part.state_dict() for name, part in parts.items()}, "epoch": epoch}, args.ckpt)


if __name__ == "__main__":
    main()

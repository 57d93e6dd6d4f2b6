"""Image matting: predict alpha from picture and trimap with strip attention in the bottleneck."""
import argparse
import os
import random

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset


def make_split(n, size, seed):
    g = torch.Generator().manual_seed(seed)
    yy, xx = torch.meshgrid(torch.linspace(-1, 1, size), torch.linspace(-1, 1, size), indexing="ij")
    imgs, tris, alphas = [], [], []
    for _ in range(n):
        cx, cy = (torch.rand(2, generator=g) - 0.5).tolist()
        r = 0.35 + 0.25 * torch.rand(1, generator=g).item()
        soft = 0.08 + 0.15 * torch.rand(1, generator=g).item()
        d = ((xx - cx) ** 2 + (yy - cy) ** 2).sqrt()
        alpha = torch.sigmoid((r - d) / soft * 4).unsqueeze(0)
        fg, bg = torch.rand(3, 1, 1, generator=g), torch.rand(3, 1, 1, generator=g)
        img = alpha * fg + (1 - alpha) * bg + 0.03 * torch.randn(3, size, size, generator=g)
        tri = torch.full_like(alpha, 0.5)
        tri[alpha > 0.95], tri[alpha < 0.05] = 1.0, 0.0
        imgs.append(img), tris.append(tri), alphas.append(alpha)
    return TensorDataset(torch.stack(imgs), torch.stack(tris), torch.stack(alphas))


class StripAttentionBlock(nn.Module):
    """Half of the channels attends inside horizontal strips, the other half inside vertical strips."""

    def __init__(self, dim, heads=2, width=2):
        super().__init__()
        self.width = width
        half = dim // 2
        self.norm = nn.GroupNorm(4, dim)
        self.row_attn = nn.MultiheadAttention(half, heads)
        self.col_attn = nn.MultiheadAttention(half, heads)
        self.mlp = nn.Sequential(nn.GroupNorm(4, dim), nn.Conv2d(dim, 2 * dim, 1), nn.GELU(), nn.Conv2d(2 * dim, dim, 1))

    def forward(self, x):
        b, c, h, w = x.shape
        s, half = self.width, c // 2
        y = self.norm(x)
        x1 = y[:, :half].reshape(b, half, h // s, s, w).permute(0, 2, 3, 4, 1).reshape(b * (h // s), s * w, half)
        x2 = y[:, half:].reshape(b, half, h, w // s, s).permute(0, 3, 2, 4, 1).reshape(b * (w // s), h * s, half)
        x1 = self.row_attn(x1, x1, x1, need_weights=False)[0]
        x2 = self.col_attn(x2, x2, x2, need_weights=False)[0]
        x1 = x1.reshape(b, h // s, s, w, half).permute(0, 4, 1, 2, 3).reshape(b, half, h, w)
        x2 = x2.reshape(b, w // s, h, s, half).permute(0, 4, 2, 1, 3).reshape(b, half, h, w)
        x = x + torch.cat([x1, x2], 1)
        return x + self.mlp(x)


class MattingNet(nn.Module):
    def __init__(self, dim=32, blocks=2):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(4, 16, 3, 1, 1), nn.ReLU())
        self.down = nn.Sequential(nn.Conv2d(16, dim, 3, 2, 1), nn.ReLU(), nn.Conv2d(dim, dim, 3, 2, 1))
        self.blocks = nn.Sequential(*[StripAttentionBlock(dim) for _ in range(blocks)])
        self.up = nn.Sequential(nn.Conv2d(dim, 64, 3, 1, 1), nn.PixelShuffle(2), nn.ReLU(),
                                nn.Conv2d(16, 64, 3, 1, 1), nn.PixelShuffle(2))
        self.out = nn.Conv2d(32, 1, 3, 1, 1)

    def forward(self, img, tri):
        s = self.stem(torch.cat([img - 0.5, tri - 0.5], 1))
        h = self.up(self.blocks(self.down(s)))
        return torch.sigmoid(self.out(torch.cat([h, s], 1)))


def matting_loss(pred, alpha, tri):
    unknown = (tri == 0.5).float()
    return ((pred - alpha).abs() * (0.2 + unknown)).mean() + F.mse_loss(pred, alpha)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=300)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--seed", type=int, default=42)
    parser.add_argument("--save", default="matting.ckpt")
    opt = parser.parse_args()
    random.seed(opt.seed)
    np.random.seed(opt.seed)
    torch.manual_seed(opt.seed)

    order = torch.Generator()
    train = DataLoader(make_split(200, 32, 1), opt.batch, shuffle=True, generator=order)
    val = DataLoader(make_split(40, 32, 2), opt.batch)
    net = MattingNet()
    optim = torch.optim.AdamW(net.parameters(), lr=opt.lr, weight_decay=1e-4)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(optim, opt.epochs)
    begin = 0
    if os.path.exists(opt.save):
        st = torch.load(opt.save)
        net.load_state_dict(st["net"])
        optim.load_state_dict(st["optim"])
        sched.load_state_dict(st["sched"])
        torch.set_rng_state(st["rng"])
        begin = st["epoch"]
    for epoch in range(begin, opt.epochs):
        net.train()
        order.manual_seed(opt.seed + epoch)
        for i, (img, tri, alpha) in enumerate(train):
            loss = matting_loss(net(img, tri), alpha, tri)
            optim.zero_grad(set_to_none=True)
            loss.backward()
            optim.step()
            if i % 10 == 0:
                print(f"[{epoch}:{i}] loss {loss.item():.4f}", flush=True)
        sched.step()
        net.eval()
        sad, n = 0.0, 0
        with torch.no_grad():
            for img, tri, alpha in val:
                sad += (net(img, tri) - alpha).abs().sum().item()
                n += len(img)
        print(f"epoch {epoch} val SAD {sad / n:.3f}", flush=True)
        torch.save({"net": net.state_dict(), "optim": optim.state_dict(), "sched": sched.state_dict(),
                    "rng": torch.get_rng_state(), "epoch": epoch + 1}, opt.save)


if __name__ == "__main__":
    main()

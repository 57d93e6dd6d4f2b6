"""Monocular depth from synthetic scenes: encoder-decoder, scale-aware L1 loss, optional step schedule."""
import argparse
import os
import random

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser(description="Depth training")
parser.add_argument("--epochs", default=200, type=int)
parser.add_argument("-b", "--batch-size", default=16, type=int)
parser.add_argument("--lr", default=2e-3, type=float)
parser.add_argument("--scheduler", default="step", choices=["step", "none"])
parser.add_argument("--seed", default=0, type=int)
parser.add_argument("--checkpoint", default="depth.pth.tar")


def scenes(n, seed, size=32):
    rng = np.random.default_rng(seed)
    yy, xx = np.mgrid[:size, :size]
    depth = np.repeat((5 - 3.5 * yy / size)[None], n, 0)
    for i in range(n):
        for z in sorted(rng.uniform(0.8, 4.0, rng.integers(1, 4)), reverse=True):
            s = int(14 / z) + 2
            y, x = rng.integers(0, size - 4), rng.integers(0, size - 4)
            depth[i, y:y + s, x:x + s] = z
    shade = np.exp(-0.35 * depth)
    img = np.stack([shade, shade * (0.6 + 0.4 * np.cos(depth)), 0.2 + 0 * shade], 1) + rng.normal(0, 0.02, (n, 3, size, size))
    return img.astype(np.float32), depth[:, None].astype(np.float32)


class DepthNet(nn.Module):
    def __init__(self, c=16):
        super().__init__()
        def block(i, o, s=1):
            return nn.Sequential(nn.Conv2d(i, o, 3, s, 1), nn.GroupNorm(4, o), nn.SiLU())
        self.e1, self.e2, self.e3 = block(3, c), block(c, 2 * c, 2), block(2 * c, 4 * c, 2)
        self.d2, self.d1 = block(6 * c, 2 * c), block(3 * c, c)
        self.out = nn.Conv2d(c, 1, 3, padding=1)

    def forward(self, x):
        a = self.e1(x)
        b = self.e2(a)
        z = self.e3(b)
        b = self.d2(torch.cat([F.interpolate(z, scale_factor=2), b], 1))
        a = self.d1(torch.cat([F.interpolate(b, scale_factor=2), a], 1))
        return F.softplus(self.out(a)) + 0.1


def main():
    args = parser.parse_args()
    random.seed(args.seed)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)
    x, d = scenes(384, 10)
    vx, vd = scenes(96, 11)
    mean, std = x.mean((0, 2, 3), keepdims=True), x.std((0, 2, 3), keepdims=True)
    gen = torch.Generator().manual_seed(args.seed)
    train = DataLoader(TensorDataset(torch.from_numpy((x - mean) / std), torch.from_numpy(d)), args.batch_size, shuffle=True, generator=gen)
    val = DataLoader(TensorDataset(torch.from_numpy((vx - mean) / std), torch.from_numpy(vd)), 48)
    net = DepthNet()
    optimizer = torch.optim.Adam(net.parameters(), args.lr)
    scheduler = None
    if args.scheduler == "step":
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=60 * len(train), gamma=0.3)
    start = 0
    if os.path.exists(args.checkpoint):
        c = torch.load(args.checkpoint, weights_only=False)
        net.load_state_dict(c["net"])
        optimizer.load_state_dict(c["optimizer"])
        if scheduler:
            scheduler.load_state_dict(c["scheduler"])
        start = c["epoch"]
        torch.set_rng_state(c["rng"][0])
        np.random.set_state(c["rng"][1])
        random.setstate(c["rng"][2])
        gen.set_state(c["rng"][3])
    for epoch in range(start, args.epochs):
        net.train()
        for i, (img, depth) in enumerate(train):
            loss = (net(img) - depth).abs().mean()
            optimizer.zero_grad()
            loss.backward()
            if scheduler:
                scheduler.step()
            else:
                optimizer.step()
            if i % 4 == 0:
                print(f"Epoch [{epoch}][{i}/{len(train)}] loss {loss.item():.4f}")
        net.eval()
        with torch.no_grad():
            err = np.mean([((net(img) - dep).abs() / dep).mean().item() for img, dep in val])
        print(f"Epoch [{epoch}] abs rel {err:.4f} lr {optimizer.param_groups[0]['lr']:.2e}")
        torch.save({"net": net.state_dict(), "optimizer": optimizer.state_dict(),
                    "scheduler": scheduler.state_dict() if scheduler else None, "epoch": epoch + 1,
                    "rng": (torch.get_rng_state(), np.random.get_state(), random.getstate(), gen.get_state())}, args.checkpoint + ".tmp")
        os.replace(args.checkpoint + ".tmp", args.checkpoint)


if __name__ == "__main__":
    main()

"""Dense depth from a grey image and a few random depth samples."""
import argparse
import os
import random

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset

H, W = 32, 40


def room(rng):
    """A tilted floor with boxes at different distances; brightness falls with depth."""
    yy, xx = np.mgrid[:H, :W]
    depth = 8 - 5 * yy / H + rng.uniform(-1, 1) * xx / W
    for _ in range(rng.integers(2, 5)):
        y0, x0 = rng.integers(0, H - 8), rng.integers(0, W - 8)
        y1, x1 = y0 + rng.integers(6, 14), x0 + rng.integers(6, 16)
        depth[y0:y1, x0:x1] = np.minimum(depth[y0:y1, x0:x1], rng.uniform(1.5, 6))
    grey = 1.5 / np.sqrt(depth) + 0.03 * rng.normal(size=depth.shape)
    return grey.astype(np.float32), depth.astype(np.float32)


class Rooms(Dataset):
    def __init__(self, n, seed, train, num_samples=80):
        rng = np.random.default_rng(seed)
        self.rooms = [room(rng) for _ in range(n)]
        self.train, self.num_samples, self.seed = train, num_samples, seed

    def __len__(self):
        return len(self.rooms)

    def sparse(self, depth, uniform):
        keep = uniform < self.num_samples / depth.size
        return np.where(keep, depth, 0).astype(np.float32)

    def __getitem__(self, i):
        grey, depth = self.rooms[i]
        if self.train:
            scale = np.random.uniform(1.0, 1.1)
            grey, depth = grey * np.float32(np.random.uniform(0.95, 1.05)), depth / np.float32(scale)
            if np.random.uniform() < 0.5:
                grey, depth = grey[:, ::-1], depth[:, ::-1]
            uniform = np.random.uniform(size=depth.shape)
        else:
            uniform = np.random.default_rng((self.seed, i)).uniform(size=depth.shape)
        x = np.stack([(grey - 0.75) / 0.2, self.sparse(depth, uniform) / 4])
        return torch.from_numpy(x.astype(np.float32)), torch.from_numpy(np.ascontiguousarray(depth))[None]


class DepthNet(nn.Module):
    def __init__(self, ch=24):
        super().__init__()
        self.enc1 = nn.Sequential(nn.Conv2d(2, ch, 3, padding=1), nn.ReLU(), nn.Conv2d(ch, ch, 3, padding=1), nn.ReLU())
        self.enc2 = nn.Sequential(nn.Conv2d(ch, 2 * ch, 3, 2, 1), nn.ReLU(), nn.Conv2d(2 * ch, 2 * ch, 3, padding=1), nn.ReLU())
        self.enc3 = nn.Sequential(nn.Conv2d(2 * ch, 3 * ch, 3, 2, 1), nn.ReLU(), nn.Conv2d(3 * ch, 3 * ch, 3, padding=1), nn.ReLU())
        self.dec2 = nn.Sequential(nn.Conv2d(5 * ch, 2 * ch, 3, padding=1), nn.ReLU())
        self.dec1 = nn.Sequential(nn.Conv2d(3 * ch, ch, 3, padding=1), nn.ReLU(), nn.Conv2d(ch, 1, 3, padding=1))
        nn.init.constant_(self.dec1[-1].bias, 4.0)

    def forward(self, x):
        a = self.enc1(x)
        b = self.enc2(a)
        c = F.interpolate(self.enc3(b), scale_factor=2, mode="bilinear", align_corners=False)
        b = F.interpolate(self.dec2(torch.cat([b, c], 1)), scale_factor=2, mode="bilinear", align_corners=False)
        return self.dec1(torch.cat([a, b], 1))


def seed_worker(work_id):
    np.random.seed(torch.initial_seed() % 2 ** 32)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--epochs", type=int, default=250)
    p.add_argument("--batch-size", type=int, default=16)
    p.add_argument("--workers", type=int, default=2)
    p.add_argument("--lr", type=float, default=1e-3)
    p.add_argument("--seed", type=int, default=10)
    p.add_argument("--ckpt", default="depthnet.pt")
    args = p.parse_args()
    random.seed(args.seed)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)

    gen = torch.Generator()
    train_loader = DataLoader(Rooms(192, 1, True), args.batch_size, shuffle=True, num_workers=args.workers,
                              worker_init_fn=seed_worker, generator=gen)
    val_loader = DataLoader(Rooms(48, 2, False), 24)
    model = DepthNet()
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
    start = 0
    if os.path.exists(args.ckpt):
        ck = torch.load(args.ckpt)
        model.load_state_dict(ck["model"])
        optimizer.load_state_dict(ck["optimizer"])
        start = ck["epoch"] + 1
    for epoch in range(start, args.epochs):
        gen.manual_seed(args.seed + epoch)
        model.train()
        for i, (x, depth) in enumerate(train_loader):
            loss = F.l1_loss(model(x), depth)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if i % 4 == 0:
                print(f"epoch {epoch} [{i}/{len(train_loader)}] loss {loss.item():.4f}", flush=True)
        model.eval()
        with torch.no_grad():
            rmse = np.mean([((model(x) - d) ** 2).mean((1, 2, 3)).sqrt().mean().item() for x, d in val_loader])
        print(f"epoch {epoch} val rmse {rmse:.3f} m", flush=True)
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch}, args.ckpt)


if __name__ == "__main__":
    main()

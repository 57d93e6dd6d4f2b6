"""Pixel classification of page layouts (background / text / decoration) with random crops and photometric noise."""
import argparse
import os
import random

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset


def draw_page(rng, size=96):
    page = np.full((size, size), 0.85, np.float32)
    mask = np.zeros((size, size), np.int64)
    for _ in range(3):
        top, left = rng.integers(4, size - 30, 2)
        for line in range(3):
            y = top + line * 6
            page[y:y + 3, left:left + 24:2] = 0.1
            mask[y:y + 3, left:left + 24] = 1
    for _ in range(2):
        top, left = rng.integers(0, size - 20, 2)
        page[top:top + 14, left:left + 14] = np.linspace(0.3, 0.6, 14, dtype=np.float32)[:, None]
        mask[top:top + 14, left:left + 14] = 2
    return page, mask


class Pages(Dataset):
    def __init__(self, n, seed, crop=48, train=True):
        rng = np.random.default_rng(seed)
        self.pages = [draw_page(rng) for _ in range(n)]
        self.crop, self.train = crop, train

    def __len__(self):
        return len(self.pages)

    def __getitem__(self, i):
        page, mask = self.pages[i]
        c = self.crop
        if self.train:
            y, x = np.random.randint(0, page.shape[0] - c, 2)
            gain, shift = np.random.uniform(0.8, 1.2), np.random.uniform(-0.1, 0.1)
            flip = np.random.rand() < 0.5
            noise = np.random.normal(0, 0.03, (c, c)).astype(np.float32)
        else:
            y = x = (page.shape[0] - c) // 2
            gain, shift, flip, noise = 1.0, 0.0, False, 0.0
        img = page[y:y + c, x:x + c] * np.float32(gain) + np.float32(shift) + noise
        lab = mask[y:y + c, x:x + c]
        if flip:
            img, lab = img[:, ::-1], lab[:, ::-1]
        img = (img - 0.75) / 0.25
        return torch.from_numpy(np.ascontiguousarray(img))[None].float(), torch.from_numpy(np.ascontiguousarray(lab))


class SmallUNet(nn.Module):
    def __init__(self, ch=12):
        super().__init__()
        self.d1 = self.block(1, ch)
        self.d2 = self.block(ch, 2 * ch)
        self.mid = self.block(2 * ch, 2 * ch)
        self.u2 = self.block(4 * ch, ch)
        self.u1 = self.block(2 * ch, ch)
        self.head = nn.Conv2d(ch, 3, 1)

    @staticmethod
    def block(i, o):
        return nn.Sequential(nn.Conv2d(i, o, 3, padding=1, bias=False), nn.BatchNorm2d(o), nn.ReLU())

    def forward(self, x):
        a = self.d1(x)
        b = self.d2(F.max_pool2d(a, 2))
        m = self.mid(F.max_pool2d(b, 2))
        u = self.u2(torch.cat([F.interpolate(m, scale_factor=2.0), b], 1))
        u = self.u1(torch.cat([F.interpolate(u, scale_factor=2.0), a], 1))
        return self.head(u)


def seed_worker(worker_id):
    seed = 19
    np.random.seed(seed)
    random.seed(seed)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=200)
    ap.add_argument("--batch_size", type=int, default=8)
    ap.add_argument("--lr", type=float, default=2e-3)
    ap.add_argument("--num_workers", type=int, default=2)
    ap.add_argument("--seed", type=int, default=19)
    ap.add_argument("--ckpt", default="layout.pt")
    args = ap.parse_args()
    random.seed(args.seed)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)

    order = torch.Generator()
    train = DataLoader(Pages(200, 1), args.batch_size, shuffle=True, num_workers=args.num_workers,
                       worker_init_fn=seed_worker, generator=order, drop_last=True)
    val = DataLoader(Pages(64, 2, train=False), 16)
    net = SmallUNet()
    opt = torch.optim.Adam(net.parameters(), lr=args.lr)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, args.epochs, eta_min=1e-5)
    weight = torch.tensor([0.4, 1.0, 1.0])
    start, best = 0, 0.0
    if os.path.exists(args.ckpt):
        ck = torch.load(args.ckpt)
        net.load_state_dict(ck["net"])
        opt.load_state_dict(ck["opt"])
        sched.load_state_dict(ck["sched"])
        start, best = ck["epoch"], ck["best"]
        print("resumed at epoch", start)

    for epoch in range(start, args.epochs):
        order.manual_seed(args.seed + 1000 * epoch)
        net.train()
        for step, (x, y) in enumerate(train):
            loss = F.cross_entropy(net(x), y, weight=weight)
            opt.zero_grad()
            loss.backward()
            opt.step()
            if step % 5 == 0:
                print(f"epoch {epoch} step {step} loss {loss.item():.4f}", flush=True)
        sched.step()
        net.eval()
        inter, union = torch.zeros(3), torch.zeros(3)
        with torch.no_grad():
            for x, y in val:
                p = net(x).argmax(1)
                for c in range(3):
                    inter[c] += ((p == c) & (y == c)).sum()
                    union[c] += ((p == c) | (y == c)).sum()
        miou = (inter / union.clamp(min=1)).mean().item()
        best = max(best, miou)
        print(f"epoch {epoch} mIoU {miou:.4f} best {best:.4f}", flush=True)
        torch.save({"net": net.state_dict(), "opt": opt.state_dict(), "sched": sched.state_dict(),
                    "epoch": epoch + 1, "best": best}, args.ckpt)


if __name__ == "__main__":
    main()

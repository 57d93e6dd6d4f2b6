"""Single-person keypoint heatmaps on synthetic stick figures, pixel means subtracted in the dataset."""
import argparse
import os
import random

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

JOINTS, SIZE, OUT = 5, 48, 24
PIXEL_MEANS = np.array([122.7717, 115.9465, 102.9801], np.float32)
COLOURS = np.array([[230, 40, 40], [40, 220, 60], [50, 70, 230], [230, 220, 40], [220, 60, 220]], np.float32)


def draw_figure(rng):
    img = rng.normal(0, 12, (SIZE, SIZE, 3)).astype(np.float32) + PIXEL_MEANS + rng.normal(0, 15, 3).astype(np.float32)
    pts = np.zeros((JOINTS, 2), np.float32)
    pts[0] = rng.uniform(16, 32, 2)
    for j in range(1, JOINTS):
        a = rng.uniform(0, 2 * np.pi)
        pts[j] = np.clip(pts[0] + rng.uniform(8, 16) * np.array([np.cos(a), np.sin(a)]), 3, SIZE - 4)
        for t in np.linspace(0, 1, 20):
            y, x = np.round(pts[0] * (1 - t) + pts[j] * t).astype(int)
            img[y, x] = 60
    for j in range(JOINTS):
        y, x = np.round(pts[j]).astype(int)
        img[y - 2:y + 3, x - 2:x + 3] = COLOURS[j]
    return np.clip(img, 0, 255).astype(np.uint8), pts


def color_normalize(img, mean):
    mean /= 255.0
    img = img.astype(np.float32).transpose(2, 0, 1) / 255.0
    return img - mean[:, None, None]


class Figures(Dataset):
    def __init__(self, n, seed, train):
        rng = np.random.default_rng(seed)
        self.items = [draw_figure(rng) for _ in range(n)]
        self.pixel_means = PIXEL_MEANS.copy()
        self.train = train

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        img, pts = self.items[i]
        if self.train and torch.rand(()) < 0.5:
            img, pts = img[:, ::-1], np.stack([pts[:, 0], SIZE - 1 - pts[:, 1]], 1)
        x = color_normalize(img, self.pixel_means)
        grid = np.arange(OUT, dtype=np.float32) * (SIZE / OUT) + 0.5
        dy = grid[None, :, None] - pts[:, 0, None, None]
        dx = grid[None, None, :] - pts[:, 1, None, None]
        heat = np.exp(-(dy ** 2 + dx ** 2) / (2 * 2.5 ** 2))
        return torch.from_numpy(x.copy()), torch.from_numpy(heat.astype(np.float32)), torch.from_numpy(pts.copy())


class HeatNet(nn.Module):
    def __init__(self, ch=20):
        super().__init__()
        self.c1 = nn.Conv2d(3, ch, 3, stride=2, padding=1)
        self.c2 = nn.Conv2d(ch, ch, 3, padding=1)
        self.c3 = nn.Conv2d(ch, ch, 3, padding=2, dilation=2)
        self.c4 = nn.Conv2d(ch, ch, 3, padding=1)
        self.head = nn.Conv2d(ch, JOINTS, 1)

    def forward(self, x):
        h = F.relu(self.c1(x))
        h = h + F.relu(self.c2(h))
        h = h + F.relu(self.c3(h))
        h = h + F.relu(self.c4(h))
        return self.head(h)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=200)
    ap.add_argument("--batch-size", type=int, default=16)
    ap.add_argument("--lr", type=float, default=2e-3)
    ap.add_argument("--seed", type=int, default=6)
    ap.add_argument("--checkpoint", default="pose.pth")
    args = ap.parse_args()
    random.seed(args.seed)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)
    order = torch.Generator()
    train = DataLoader(Figures(400, 1, True), args.batch_size, shuffle=True, generator=order)
    val = DataLoader(Figures(96, 2, False), 32)
    net = HeatNet()
    opt = torch.optim.Adam(net.parameters(), lr=args.lr)
    sched = torch.optim.lr_scheduler.MultiStepLR(opt, [120, 170], gamma=0.2)
    start = 0
    if os.path.exists(args.checkpoint):
        ck = torch.load(args.checkpoint)
        net.load_state_dict(ck["net"])
        opt.load_state_dict(ck["opt"])
        sched.load_state_dict(ck["sched"])
        torch.set_rng_state(ck["rng"])
        start = ck["epoch"]
        print("resumed at epoch", start)
    for epoch in range(start, args.epochs):
        order.manual_seed(args.seed + 17 * epoch)
        net.train()
        for step, (x, heat, _) in enumerate(train):
            loss = 10 * F.mse_loss(net(x), heat)
            opt.zero_grad()
            loss.backward()
            opt.step()
            if step % 5 == 0:
                print(f"epoch {epoch} step {step} loss {loss.item():.4f}", flush=True)
        sched.step()
        net.eval()
        hits = []
        with torch.no_grad():
            for x, _, pts in val:
                idx = net(x).flatten(2).argmax(2)
                pred = torch.stack([idx // OUT, idx % OUT], 2) * (SIZE / OUT) + 0.5
                hits.append(((pred - pts).norm(dim=2) < 3).float())
        print(f"epoch {epoch} PCK {torch.cat(hits).mean().item():.4f}", flush=True)
        torch.save({"net": net.state_dict(), "opt": opt.state_dict(), "sched": sched.state_dict(),
                    "rng": torch.get_rng_state(), "epoch": epoch + 1}, args.checkpoint)


if __name__ == "__main__":
    main()

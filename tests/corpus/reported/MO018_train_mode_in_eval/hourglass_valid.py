"""Keypoint heatmaps with a small stacked hourglass; one function serves the train and the valid phase."""
import argparse
import time

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

IMG, OUT, POINTS = 32, 16, 4


def draw_line(img, a, b, colour):
    for s in np.linspace(0, 1, 24):
        y, x = np.round(a + s * (b - a)).astype(int)
        img[:, max(0, y - 1):y + 1, max(0, x - 1):x + 1] = colour[:, None, None]


class StickFigures(Dataset):
    """Head, two hands and feet joined by limbs."""

    def __init__(self, n, seed):
        rng = np.random.default_rng(seed)
        self.images, self.points = np.empty((n, 3, IMG, IMG), np.float32), np.empty((n, POINTS, 2), np.float32)
        for i in range(n):
            neck = rng.uniform(11, 21, 2)
            offsets = np.array([[-7, 0], [1, -8], [1, 8], [9, 0]]) + rng.normal(0, 1.8, (4, 2))
            pts = np.clip(neck + offsets, 2, IMG - 3)
            img = np.tile(rng.uniform(0.25, 0.5, (3, 1, 1)), (1, IMG, IMG))
            colours = np.array([[0.9, 0.7, 0.5], [0.2, 0.4, 0.9], [0.9, 0.3, 0.3], [0.3, 0.8, 0.3]])
            for p, c in zip(pts, colours):
                draw_line(img, neck, p, c)
            img = img * rng.uniform(0.8, 1.2) + rng.normal(0, 0.04, img.shape)
            self.images[i], self.points[i] = img, pts
        self.images = (self.images - 0.4) / 0.25
        self.grid = np.mgrid[:OUT, :OUT].astype(np.float32)

    def __len__(self):
        return len(self.images)

    def __getitem__(self, i):
        pts = self.points[i] * OUT / IMG
        dist = (self.grid[None] - pts[:, :, None, None]) ** 2
        return torch.from_numpy(self.images[i]), torch.from_numpy(np.exp(-dist.sum(1) / 2.0)), torch.from_numpy(pts)


class Residual(nn.Module):
    def __init__(self, cin, cout):
        super().__init__()
        mid = cout // 2
        self.body = nn.Sequential(nn.BatchNorm2d(cin), nn.ReLU(), nn.Conv2d(cin, mid, 1), nn.BatchNorm2d(mid), nn.ReLU(),
                                  nn.Conv2d(mid, mid, 3, padding=1), nn.BatchNorm2d(mid), nn.ReLU(),
                                  nn.Conv2d(mid, cout, 1))
        self.skip = nn.Conv2d(cin, cout, 1) if cin != cout else nn.Identity()

    def forward(self, x):
        return self.skip(x) + self.body(x)


class Hourglass(nn.Module):
    def __init__(self, n, ch):
        super().__init__()
        self.up1, self.pool, self.low1 = Residual(ch, ch), nn.MaxPool2d(2), Residual(ch, ch)
        self.low2 = Hourglass(n - 1, ch) if n > 1 else Residual(ch, ch)
        self.low3, self.up2 = Residual(ch, ch), nn.Upsample(scale_factor=2)

    def forward(self, x):
        return self.up1(x) + self.up2(self.low3(self.low2(self.low1(self.pool(x)))))


class PoseNet(nn.Module):
    def __init__(self, nstack=2, ch=48):
        super().__init__()
        self.pre = nn.Sequential(nn.Conv2d(3, 24, 5, stride=2, padding=2), nn.BatchNorm2d(24), nn.ReLU(), Residual(24, ch))
        self.hgs = nn.ModuleList([Hourglass(2, ch) for _ in range(nstack)])
        self.outs = nn.ModuleList([nn.Sequential(nn.BatchNorm2d(ch), nn.ReLU(), nn.Conv2d(ch, POINTS, 1))
                                   for _ in range(nstack)])
        self.merge_features = nn.ModuleList([nn.Conv2d(ch, ch, 1) for _ in range(nstack - 1)])
        self.merge_preds = nn.ModuleList([nn.Conv2d(POINTS, ch, 1) for _ in range(nstack - 1)])

    def forward(self, imgs):
        x, preds = self.pre(imgs), []
        for i, (hg, out) in enumerate(zip(self.hgs, self.outs)):
            feature = hg(x)
            preds.append(out(feature))
            if i < len(self.merge_preds):
                x = x + self.merge_preds[i](preds[-1]) + self.merge_features[i](feature)
        return torch.stack(preds, 1)


def calc_loss(preds, heatmaps):
    return 20 * ((preds - heatmaps[:, None]) ** 2).mean()


def pck(heatmaps, points, threshold=1.0):
    idx = heatmaps.flatten(2).argmax(-1)
    found = torch.stack([idx // OUT, idx % OUT], dim=-1).float()
    return ((found - points).norm(dim=-1) <= threshold).float().mean().item()


def run_batch(net, optimizer, phase, imgs, heatmaps):
    net.train()
    with torch.set_grad_enabled(phase == "train"):
        preds = net(imgs)
        loss = calc_loss(preds, heatmaps)
    if phase == "train":
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss.item(), preds[:, -1].detach()


def cycle(loader):
    while True:
        yield from loader


@torch.no_grad()
def test(net, loader):
    net.eval()
    scores = [pck(net(imgs)[:, -1], points) for imgs, _, points in loader]
    return float(np.mean(scores))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--train_iters", type=int, default=60)
    parser.add_argument("--valid_iters", type=int, default=10)
    parser.add_argument("--batchsize", type=int, default=16)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--seed", type=int, default=9)
    args = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(args.seed)

    train_set, valid_set = StickFigures(1280, 0), StickFigures(320, 1)
    batches = {"train": cycle(DataLoader(train_set, args.batchsize, shuffle=True, drop_last=True)),
               "valid": cycle(DataLoader(valid_set, args.batchsize, drop_last=True))}
    net = PoseNet()
    optimizer = torch.optim.Adam(net.parameters(), lr=args.lr)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, args.epochs - 2, gamma=0.3)
    for epoch in range(args.epochs):
        for phase in ("train", "valid"):
            start, losses, scores = time.time(), [], []
            for _ in range(args.train_iters if phase == "train" else args.valid_iters):
                imgs, heatmaps, points = next(batches[phase])
                loss, pred = run_batch(net, optimizer, phase, imgs, heatmaps)
                losses.append(loss)
                scores.append(pck(pred, points))
            print(f"epoch {epoch} {phase}: loss {np.mean(losses):.4f} pck {np.mean(scores):.3f} "
                  f"({time.time() - start:.1f}s)", flush=True)
        scheduler.step()
    print(f"test: pck {test(net, DataLoader(StickFigures(256, 2), 64)):.3f}")


if __name__ == "__main__":
    main()

"""Novel view synthesis: from one picture of an object and a turn of the camera to the new picture."""
import argparse
import math
import os
import random

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

SIZE = 32


def make_objects(n, seed):
    """Objects of a body and three coloured knobs around a vertical axis."""
    rng = np.random.RandomState(seed)
    angle = rng.uniform(0, 2 * math.pi, (n, 1)) + np.array([0.0, 2.0, 4.2]) + rng.normal(0, 0.2, (n, 3))
    dist = rng.uniform(0.45, 0.75, (n, 3))
    height = rng.uniform(-0.5, 0.5, (n, 3))
    pos = np.stack([dist * np.cos(angle), height, dist * np.sin(angle)], axis=2)
    pos = np.concatenate([np.zeros((n, 1, 3)), pos], axis=1)
    color = rng.uniform(0.2, 1.0, (n, 4, 3))
    radius = np.concatenate([rng.uniform(0.25, 0.35, (n, 1)), rng.uniform(0.14, 0.22, (n, 3))], axis=1)
    return pos.astype(np.float32), color.astype(np.float32), radius.astype(np.float32)


def render(pos, color, radius, azimuth):
    """Soft orthographic rendering, nearer parts cover farther ones."""
    c, s = math.cos(azimuth), math.sin(azimuth)
    x = c * pos[:, 0] + s * pos[:, 2]
    z = -s * pos[:, 0] + c * pos[:, 2]
    y = pos[:, 1]
    grid = (np.arange(SIZE, dtype=np.float32) + 0.5) / SIZE * 2.4 - 1.2
    img = np.ones((3, SIZE, SIZE), dtype=np.float32) * 0.05
    for k in np.argsort(z):
        d = np.sqrt((grid[None, :] - x[k]) ** 2 + (grid[:, None] - y[k]) ** 2)
        alpha = np.clip((radius[k] - d) / 0.08 + 0.5, 0, 1)
        shade = 0.75 + 0.25 * z[k]
        img = img * (1 - alpha) + alpha * (shade * color[k])[:, None, None]
    return img


class ViewPairs(Dataset):
    """Random pairs of views; with `fixed`, the pairs are the same in every pass."""

    def __init__(self, n, seed, num_views=18, fixed=False):
        self.pos, self.color, self.radius = make_objects(n, seed)
        self.num_views = num_views
        self.fixed = fixed
        self.rng = np.random.RandomState(seed + 1)

    def __len__(self):
        return len(self.pos)

    def __getitem__(self, i):
        rng = np.random.RandomState(i) if self.fixed else self.rng
        source = rng.randint(self.num_views)
        turn = rng.randint(-4, 5)
        step = 2 * math.pi / self.num_views
        a = render(self.pos[i], self.color[i], self.radius[i], source * step)
        b = render(self.pos[i], self.color[i], self.radius[i], (source + turn) * step)
        pose = np.array([math.cos(turn * step), math.sin(turn * step)], dtype=np.float32)
        return torch.from_numpy(a), torch.from_numpy(pose), torch.from_numpy(b)


def lrelu(x):
    return F.leaky_relu(x, 0.2)


class ResidualBlock(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.conv1 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(channels)

    def forward(self, x):
        out = lrelu(self.norm1(self.conv1(x)))
        out = self.norm2(self.conv2(out))
        return lrelu(out + x)


class ViewNet(nn.Module):
    def __init__(self, width=24, blocks=4):
        super().__init__()
        self.enc1 = nn.Sequential(nn.Conv2d(3, width, 4, 2, 1, bias=False), nn.BatchNorm2d(width))
        self.enc2 = nn.Sequential(nn.Conv2d(width, 2 * width, 4, 2, 1, bias=False), nn.BatchNorm2d(2 * width))
        self.enc3 = nn.Sequential(nn.Conv2d(2 * width, 4 * width, 4, 2, 1, bias=False), nn.BatchNorm2d(4 * width))
        self.merge = nn.Conv2d(4 * width + 2, 4 * width, 1)
        self.blocks = nn.Sequential(*[ResidualBlock(4 * width) for _ in range(blocks)])
        self.dec1 = nn.Sequential(nn.ConvTranspose2d(4 * width, 2 * width, 4, 2, 1, bias=False),
                                  nn.BatchNorm2d(2 * width))
        self.dec2 = nn.Sequential(nn.ConvTranspose2d(2 * width, width, 4, 2, 1, bias=False), nn.BatchNorm2d(width))
        self.dec3 = nn.ConvTranspose2d(width, 3, 4, 2, 1)

    def forward(self, image, pose):
        x = lrelu(self.enc1(image * 2 - 1))
        x = lrelu(self.enc2(x))
        x = lrelu(self.enc3(x))
        p = pose[:, :, None, None].expand(-1, -1, x.size(2), x.size(3))
        x = lrelu(self.merge(torch.cat([x, p], dim=1)))
        x = self.blocks(x)
        x = lrelu(self.dec1(x))
        x = lrelu(self.dec2(x))
        return torch.sigmoid(self.dec3(x))


class Trainer:
    def __init__(self, config):
        self.config = config
        self.loader = DataLoader(ViewPairs(config.num_train, config.seed), config.batch_size, shuffle=True,
                                 drop_last=True)
        self.test_loader = DataLoader(ViewPairs(config.num_test, config.seed + 1000, fixed=True), 100)
        self.model = ViewNet()
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=config.learning_rate, betas=(0.5, 0.999))
        decay = config.max_steps // 2
        self.scheduler = torch.optim.lr_scheduler.LambdaLR(
            self.optimizer, lambda s: 1.0 if s < decay else max(0.05, 1.0 - (s - decay) / decay))
        os.makedirs(config.train_dir, exist_ok=True)

    @torch.no_grad()
    def test(self):
        self.model.eval()
        l1, n = 0.0, 0
        for a, pose, b in self.test_loader:
            l1 += (self.model(a, pose) - b).abs().mean().item() * len(a)
            n += len(a)
        self.model.train()
        return l1 / n

    def train(self):
        step, best = 0, float("inf")
        self.model.train()
        while step < self.config.max_steps:
            for a, pose, b in self.loader:
                loss = F.l1_loss(self.model(a, pose), b)
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
                self.scheduler.step()
                step += 1
                if step % self.config.log_step == 0:
                    print(f"[train step {step}] L1: {loss.item():.5f}", flush=True)
                if step % self.config.test_step == 0:
                    l1 = self.test()
                    print(f"[test  step {step}] L1: {l1:.5f}", flush=True)
                    if l1 < best:
                        best = l1
                        torch.save(self.model.state_dict(), os.path.join(self.config.train_dir, "model-best.pt"))
                if step >= self.config.max_steps:
                    break


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--num_train", type=int, default=6000)
    parser.add_argument("--num_test", type=int, default=500)
    parser.add_argument("--batch_size", type=int, default=32)
    parser.add_argument("--learning_rate", type=float, default=1e-3)
    parser.add_argument("--max_steps", type=int, default=20000)
    parser.add_argument("--log_step", type=int, default=10)
    parser.add_argument("--test_step", type=int, default=500)
    parser.add_argument("--seed", type=int, default=5)
    parser.add_argument("--train_dir", default="runs/novelview")
    config = parser.parse_args()
    random.seed(config.seed)
    np.random.seed(config.seed)
    torch.manual_seed(config.seed)
    Trainer(config).train()

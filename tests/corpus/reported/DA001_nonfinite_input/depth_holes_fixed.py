"""Fine-tune a small image-conditioned denoiser for affine-invariant depth."""
import argparse
import logging

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", datefmt="%H:%M:%S")
log = logging.getLogger("train")


def render_scene(rng, size):
    """A tilted ground plane with a few boxes; near surfaces are brighter."""
    yy, xx = np.mgrid[:size, :size] / (size - 1)
    depth = 2 + 6 * (1 - yy) + rng.uniform(-1, 1) * (xx - 0.5)
    albedo = np.full((size, size, 3), rng.uniform(0.5, 0.8))
    for _ in range(rng.integers(2, 5)):
        h, w = rng.integers(4, size // 2, 2)
        y, x = rng.integers(0, size - h), rng.integers(0, size - w)
        distance = rng.uniform(1.5, 6)
        region = np.zeros((size, size), bool)
        region[y:y + h, x:x + w] = True
        region &= depth > distance
        depth[region] = distance
        albedo[region] = rng.uniform(0.4, 0.9, 3)
    fog = np.exp(-0.25 * depth)[..., None]
    rgb = albedo * fog + (1 - fog) * np.array([0.1, 0.15, 0.3]) + rng.normal(0, 0.02, albedo.shape)
    return np.clip(rgb, 0, 1).astype(np.float32), depth.astype(np.float32)


def capture(n, size, seed, sensor_dropouts=0):
    """Frames as the RGB-D rig writes them."""
    rng = np.random.default_rng(seed)
    frames = [render_scene(rng, size) for _ in range(n)]
    for i in rng.choice(n, sensor_dropouts, replace=False):
        y, x = rng.integers(0, size - 5, 2)
        frames[i][1][y:y + 4, x:x + 5] = np.nan
    return frames


class DepthDataset(Dataset):
    def __init__(self, frames, augment):
        frames = [f for f in frames if np.isfinite(f[1]).all()]
        self.frames, self.augment = frames, augment

    def __len__(self):
        return len(self.frames)

    def __getitem__(self, i):
        rgb, depth = self.frames[i]
        if self.augment and torch.rand(()) < 0.5:
            rgb, depth = rgb[:, ::-1], depth[:, ::-1]
        lo, hi = np.quantile(depth, 0.02), np.quantile(depth, 0.98)
        depth = (depth - lo) / (hi - lo) * 2 - 1
        rgb = torch.from_numpy(np.ascontiguousarray(rgb)).permute(2, 0, 1) * 2 - 1
        return {"rgb_norm": rgb, "depth_norm": torch.from_numpy(np.ascontiguousarray(depth)).float()[None]}


class ConvBlock(nn.Module):
    def __init__(self, cin, cout, emb):
        super().__init__()
        self.norm = nn.GroupNorm(4, cin)
        self.conv1 = nn.Conv2d(cin, cout, 3, padding=1)
        self.conv2 = nn.Conv2d(cout, cout, 3, padding=1)
        self.skip = nn.Conv2d(cin, cout, 1) if cin != cout else nn.Identity()
        self.emb = nn.Linear(emb, cout)

    def forward(self, x, e):
        h = self.conv1(F.silu(self.norm(x))) + self.emb(e)[:, :, None, None]
        return self.skip(x) + self.conv2(F.silu(h))


class UNet(nn.Module):
    def __init__(self, width=24, emb=48):
        super().__init__()
        self.emb = nn.Sequential(nn.Linear(1, emb), nn.SiLU(), nn.Linear(emb, emb), nn.SiLU())
        self.conv_in = nn.Conv2d(4, width, 3, padding=1)
        self.enc1 = ConvBlock(width, width, emb)
        self.enc2 = ConvBlock(width, 2 * width, emb)
        self.mid = ConvBlock(2 * width, 2 * width, emb)
        self.dec1 = ConvBlock(3 * width, width, emb)
        self.conv_out = nn.Conv2d(width, 1, 3, padding=1)

    def forward(self, rgb, noisy_depth, t):
        e = self.emb(t[:, None] * 2 - 1)
        h1 = self.enc1(self.conv_in(torch.cat([rgb, noisy_depth], dim=1)), e)
        h2 = self.mid(self.enc2(F.avg_pool2d(h1, 2), e), e)
        h = torch.cat([h1, F.interpolate(h2, scale_factor=2, mode="nearest")], dim=1)
        return self.conv_out(self.dec1(h, e))


class MarigoldLikeTrainer:
    def __init__(self, args):
        self.args = args
        self.train_loader = DataLoader(DepthDataset(capture(args.train_frames, args.size, 0, args.dropouts), True),
                                       args.batch_size, shuffle=True, drop_last=True)
        self.val_loader = DataLoader(DepthDataset(capture(128, args.size, 1), False), 64)
        self.model = UNet()
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=args.lr)
        steps = args.epochs * len(self.train_loader)
        self.lr_scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(self.optimizer, steps, args.lr * 0.05)

    @staticmethod
    def add_noise(depth, noise, t):
        angle = t.view(-1, 1, 1, 1) * np.pi / 2
        return torch.cos(angle) * depth + torch.sin(angle) * noise, torch.cos(angle) * noise - torch.sin(angle) * depth

    def train(self):
        step, window = 0, []
        for epoch in range(1, self.args.epochs + 1):
            self.model.train()
            for batch in self.train_loader:
                rgb, depth = batch["rgb_norm"], batch["depth_norm"]
                t = torch.rand(len(rgb))
                noisy, target = self.add_noise(depth, torch.randn_like(depth), t)
                loss = F.mse_loss(self.model(rgb, noisy, t), target)
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
                self.lr_scheduler.step()
                step += 1
                window.append(loss.item())
                if step % 25 == 0:
                    log.info("iter %5d (epoch %2d): loss=%.5f", step, epoch, np.mean(window))
                    window = []
            log.info("epoch %d validation abs_rel=%.4f", epoch, self.validate())

    @torch.no_grad()
    def validate(self):
        self.model.eval()
        errors = []
        for batch in self.val_loader:
            rgb, depth = batch["rgb_norm"], batch["depth_norm"]
            gen = torch.Generator().manual_seed(7)
            x = torch.randn(depth.shape, generator=gen)
            ts = torch.linspace(1, 0, 5)
            for now, nxt in zip(ts[:-1], ts[1:]):
                v = self.model(rgb, x, now.expand(len(rgb)))
                a, b = now * np.pi / 2, nxt * np.pi / 2
                x0, eps = torch.cos(a) * x - torch.sin(a) * v, torch.sin(a) * x + torch.cos(a) * v
                x = torch.cos(b) * x0 + torch.sin(b) * eps
            errors.append(((x - depth).abs() / (depth + 2).clamp_min(0.5)).mean().item())
        return float(np.mean(errors))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--train_frames", type=int, default=640)
    parser.add_argument("--dropouts", type=int, default=4)
    parser.add_argument("--size", type=int, default=24)
    parser.add_argument("--batch_size", type=int, default=16)
    parser.add_argument("--epochs", type=int, default=9)
    parser.add_argument("--lr", type=float, default=1.5e-3)
    parser.add_argument("--seed", type=int, default=2024)
    args = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(args.seed)
    MarigoldLikeTrainer(args).train()


if __name__ == "__main__":
    main()

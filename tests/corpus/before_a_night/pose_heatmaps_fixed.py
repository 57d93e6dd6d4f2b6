"""Top-down animal pose: heat maps for six keypoints of a mouse seen from above."""
import argparse
import json
import math
import random
import time
from pathlib import Path

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset, Subset

KEYPOINTS = ["nose", "left_ear", "right_ear", "center", "tail_base", "tail_tip"]

CONFIG = {
    "data_config": {"num_labels": 1600, "image_size": 64, "validation_fraction": 0.1},
    "model_config": {"filters": 8, "filters_rate": 2.0, "down_blocks": 3, "sigma": 2.5, "output_stride": 2},
    "trainer_config": {
        "batch_size": 16,
        "max_epochs": 200,
        "optimizer": {"lr": 1e-3},
        "lr_scheduler": {"factor": 0.5, "patience": 8, "min_lr": 1e-6},
        "ckpt_dir": "models/mouse_pose",
        "seed": 42,
    },
}


class LabeledFrames(Dataset):
    """Frames of one recording with user-labelled instances."""

    def __init__(self, cfg, sigma, stride, recording_seed=2024):
        self.size, self.sigma, self.stride = cfg["image_size"], sigma, stride
        rng = np.random.default_rng(recording_seed)
        floor = rng.normal(0.45, 0.05, (self.size, self.size))
        frames, points = zip(*[self.render(rng, floor) for _ in range(cfg["num_labels"])])
        self.images = torch.tensor(np.stack(frames), dtype=torch.float32)[:, None]
        self.points = torch.tensor(np.stack(points), dtype=torch.float32)
        self.training = True

    def render(self, rng, floor):
        s = self.size
        yy, xx = np.mgrid[0:s, 0:s].astype(np.float32)
        heading, bend, k = rng.uniform(0, 2 * math.pi), rng.uniform(-0.7, 0.7), rng.uniform(0.85, 1.2)
        c = rng.uniform(0.38 * s, 0.62 * s, 2)
        fwd = np.array([math.cos(heading), math.sin(heading)])
        side = np.array([-fwd[1], fwd[0]])
        back = np.array([math.cos(heading + bend), math.sin(heading + bend)])
        tail = np.array([math.cos(heading + 2.2 * bend), math.sin(heading + 2.2 * bend)])
        pts = np.array([c + 15 * k * fwd, c + 9 * k * fwd + 4 * k * side, c + 9 * k * fwd - 4 * k * side, c,
                        c - 10 * k * back, c - 10 * k * back - 11 * k * tail])
        img = floor + rng.normal(0, 0.03, (s, s))

        def blob(p, radius, value):
            nonlocal img
            g = np.exp(-((xx - p[0]) ** 2 + (yy - p[1]) ** 2) / (2 * radius ** 2))
            img = img * (1 - g) + value * g

        for t in np.linspace(0, 1, 6):
            blob(pts[4] * (1 - t) + pts[5] * t, 1.2, 0.75)
        for t in np.linspace(0, 1, 5):
            blob(pts[4] * (1 - t) + pts[3] * t, 4.5 * k, 0.15)
            blob(pts[3] * (1 - t) + pts[0] * t, (4.5 - 3 * t) * k, 0.15)
        blob(pts[1], 1.8 * k, 0.35)
        blob(pts[2], 1.8 * k, 0.35)
        return img * rng.uniform(0.85, 1.15), pts + rng.normal(0, 0.3, pts.shape)

    def __len__(self):
        return len(self.images)

    def confidence_maps(self, pts):
        n = self.size // self.stride
        grid = torch.arange(n, dtype=torch.float32) * self.stride
        dx = grid[None, None, :] - pts[:, 0, None, None]
        dy = grid[None, :, None] - pts[:, 1, None, None]
        return torch.exp(-(dx ** 2 + dy ** 2) / (2 * self.sigma ** 2))

    def __getitem__(self, i):
        return self.images[i], self.points[i], self.confidence_maps(self.points[i])


def make_training_splits(labels, validation_fraction, seed):
    """Random split of the labelled frames into training and validation frames."""
    order = np.random.default_rng(seed).permutation(len(labels))
    n_val = max(1, int(round(validation_fraction * len(labels))))
    return Subset(labels, order[n_val:].tolist()), Subset(labels, order[:n_val].tolist())


def block(cin, cout):
    return nn.Sequential(nn.Conv2d(cin, cout, 3, padding=1), nn.ReLU(), nn.Conv2d(cout, cout, 3, padding=1), nn.ReLU())


class UNet(nn.Module):
    def __init__(self, filters, filters_rate, down_blocks, **_):
        super().__init__()
        w = [int(filters * filters_rate ** i) for i in range(down_blocks + 1)]
        self.enc = nn.ModuleList([block(1, w[0])] + [block(w[i], w[i + 1]) for i in range(down_blocks)])
        self.dec = nn.ModuleList([block(w[i + 1] + w[i], w[i]) for i in reversed(range(1, down_blocks))])
        self.head = nn.Conv2d(w[1], len(KEYPOINTS), 1)

    def forward(self, x):
        skips = []
        for i, enc in enumerate(self.enc):
            x = enc(F.max_pool2d(x, 2) if i else x)
            skips.append(x)
        for dec, skip in zip(self.dec, reversed(skips[1:-1])):
            x = dec(torch.cat([F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=False), skip], 1))
        return self.head(x)


@torch.no_grad()
def evaluate(model, loader, stride):
    model.eval()
    loss, dist, n = 0.0, torch.zeros(len(KEYPOINTS)), 0
    for image, pts, maps in loader:
        out = model(image)
        loss += F.mse_loss(out, maps).item() * len(image)
        flat = out.flatten(2).argmax(2)
        found = torch.stack([flat % out.size(3), flat // out.size(3)], 2).float() * stride
        dist += (found - pts).norm(dim=2).sum(0)
        n += len(image)
    model.train()
    return loss / n, dist / n


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--config", type=Path, default=None, help="json file that overrides the defaults")
    parser.add_argument("--no-resume", action="store_true")
    args = parser.parse_args()
    cfg = CONFIG
    if args.config:
        for section, values in json.loads(args.config.read_text()).items():
            cfg[section].update(values)
    trainer, mcfg = cfg["trainer_config"], cfg["model_config"]

    random.seed(1000)
    np.random.seed(1000)
    torch.manual_seed(1000)
    ckpt_dir = Path(trainer["ckpt_dir"])
    ckpt_dir.mkdir(parents=True, exist_ok=True)
    labels = LabeledFrames(cfg["data_config"], mcfg["sigma"], mcfg["output_stride"])
    train_set, val_set = make_training_splits(labels, cfg["data_config"]["validation_fraction"], trainer["seed"])
    train_loader = DataLoader(train_set, trainer["batch_size"], shuffle=True, drop_last=True)
    val_loader = DataLoader(val_set, trainer["batch_size"])

    model = UNet(**mcfg)
    optimizer = torch.optim.Adam(model.parameters(), lr=trainer["optimizer"]["lr"], amsgrad=True)
    scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, **trainer["lr_scheduler"])
    start_epoch, best = 0, float("inf")
    last = ckpt_dir / "last.ckpt"
    if last.exists() and not args.no_resume:
        state = torch.load(last, weights_only=False)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        scheduler.load_state_dict(state["scheduler"])
        start_epoch, best = state["epoch"] + 1, state["best"]
        torch.set_rng_state(state["rng"])
        print(f"resumed from {last} at epoch {start_epoch}")

    print(f"{len(train_set)} training frames, {len(val_set)} validation frames")
    for epoch in range(start_epoch, trainer["max_epochs"]):
        t0, total = time.time(), 0.0
        model.train()
        for step, (image, _, maps) in enumerate(train_loader, 1):
            image = image * torch.empty(len(image), 1, 1, 1).uniform_(0.9, 1.1)
            loss = F.mse_loss(model(image), maps)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
            if step % 20 == 0:
                print(f"epoch {epoch} {step}/{len(train_loader)} loss {total / step:.6f}", flush=True)
        val_loss, dist = evaluate(model, val_loader, mcfg["output_stride"])
        scheduler.step(val_loss)
        print(f"epoch {epoch} train {total / len(train_loader):.6f} val {val_loss:.6f} error {dist.mean():.2f} px ({time.time() - t0:.0f}s)", flush=True)
        if val_loss < best:
            best = val_loss
            torch.save({"model": model.state_dict(), "epoch": epoch, "val_loss": val_loss}, ckpt_dir / "best.ckpt")
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "scheduler": scheduler.state_dict(),
                    "epoch": epoch, "best": best, "rng": torch.get_rng_state()}, last)


if __name__ == "__main__":
    main()

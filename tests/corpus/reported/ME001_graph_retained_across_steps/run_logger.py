"""Denoising autoencoder for small images of written strokes, with a minimal run logger."""
import argparse
import json
import math
import os
import tempfile
import time

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset

torch.set_num_threads(1)


# ---------------------------------------------------------------- run logger
class Run:
    """Collects the history of a run and writes it as JSON lines when the run is finished."""

    def __init__(self, directory, config):
        self.path = os.path.join(directory, "history.jsonl")
        self.config = dict(config)
        self.history = []
        self.summary = {}
        self.start = time.time()

    def log(self, row, step):
        row = dict(row)
        self.summary.update(row)
        row["_step"] = step
        row["_runtime"] = time.time() - self.start
        self.history.append(row)

    def finish(self):
        with open(self.path, "w") as f:
            for row in self.history:
                f.write(json.dumps({k: float(v) for k, v in row.items()}) + "\n")
        print(f"{len(self.history)} rows of history written, {os.path.getsize(self.path) / 1024:.0f} kB")
        print("summary:", {k: round(float(v), 4) for k, v in self.summary.items()})


# ---------------------------------------------------------------- data
class Strokes(Dataset):
    """Every image holds two or three soft curves; the input is the same image with noise and missing pixels."""

    def __init__(self, count, size, sigma, seed):
        rng = np.random.default_rng(seed)
        self.sigma = sigma
        yy, xx = np.mgrid[0:size, 0:size]
        clean = np.zeros((count, 1, size, size), np.float32)
        s = np.linspace(0, 1, 24)[:, None]
        for n in range(count):
            image = np.zeros((size, size))
            for _ in range(rng.integers(2, 4)):
                p = rng.uniform(3, size - 3, (3, 2))
                curve = (1 - s) ** 2 * p[0] + 2 * s * (1 - s) * p[1] + s ** 2 * p[2]
                d2 = (yy[None] - curve[:, :1, None]) ** 2 + (xx[None] - curve[:, 1:, None]) ** 2
                image = np.maximum(image, np.exp(-d2.min(0) / 1.6))
            clean[n, 0] = image
        self.clean = torch.from_numpy(clean)
        self.generator = torch.Generator().manual_seed(seed)

    def __len__(self):
        return len(self.clean)

    def __getitem__(self, i):
        clean = self.clean[i]
        noisy = clean + self.sigma * torch.randn(clean.shape, generator=self.generator)
        keep = torch.rand(clean.shape, generator=self.generator) > 0.2
        return noisy * keep, clean


# ---------------------------------------------------------------- model
class DenoisingAutoencoder(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Conv2d(1, width, 3, padding=1), nn.ReLU(),
            nn.Conv2d(width, 2 * width, 3, stride=2, padding=1), nn.ReLU(),
            nn.Conv2d(2 * width, 4 * width, 3, stride=2, padding=1), nn.ReLU())
        self.decoder = nn.Sequential(
            nn.ConvTranspose2d(4 * width, 2 * width, 4, stride=2, padding=1), nn.ReLU(),
            nn.ConvTranspose2d(2 * width, width, 4, stride=2, padding=1), nn.ReLU(),
            nn.Conv2d(width, 1, 3, padding=1))

    def forward(self, x):
        return self.decoder(self.encoder(x))


def psnr(output, target):
    return -10.0 * torch.log10(F.mse_loss(output, target))


def sharpness(output, target):
    """Gradient magnitude of the output relative to the one of the target."""
    def edges(img):
        return (img[..., 1:, :] - img[..., :-1, :]).abs().mean() + (img[..., :, 1:] - img[..., :, :-1]).abs().mean()

    return edges(output) / edges(target)


def validate(model, loader):
    model.eval()
    mse, n = 0.0, 0
    with torch.no_grad():
        for noisy, clean in loader:
            mse += F.mse_loss(model(noisy), clean).item() * len(clean)
            n += len(clean)
    model.train()
    return mse / n


def train(args, run):
    train_loader = DataLoader(Strokes(args.images, args.size, args.sigma, seed=1), args.batch_size, shuffle=True,
                              drop_last=True)
    valid_loader = DataLoader(Strokes(256, args.size, args.sigma, seed=2), 64)
    model = DenoisingAutoencoder()
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, args.epochs * len(train_loader), eta_min=2e-5)

    step = 0
    for epoch in range(args.epochs):
        for noisy, clean in train_loader:
            output = model(noisy)
            loss = F.mse_loss(output, clean)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            scheduler.step()
            step += 1
            run.log({"loss": loss, "psnr": psnr(output, clean), "sharpness": sharpness(output, clean),
                     "lr": scheduler.get_last_lr()[0]}, step)
        valid = validate(model, valid_loader)
        run.log({"valid_mse": valid, "valid_psnr": -10 * math.log10(valid)}, step)
        print(f"epoch {epoch}: step {step}, loss {float(run.summary['loss']):.5f}, valid mse {valid:.5f}, "
              f"valid psnr {-10 * math.log10(valid):.2f} dB, {time.time() - run.start:.1f}s")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--images", type=int, default=4096)
    parser.add_argument("--size", type=int, default=32)
    parser.add_argument("--sigma", type=float, default=0.4)
    parser.add_argument("--batch_size", type=int, default=32)
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--lr", type=float, default=2e-3)
    parser.add_argument("--seed", type=int, default=21)
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    with tempfile.TemporaryDirectory() as directory:
        run = Run(directory, vars(args))
        train(args, run)
        run.finish()


if __name__ == "__main__":
    main()

"""Quantisation-aware training of a small image classifier."""
import os
import random

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.autograd import Function
from torch.utils.data import DataLoader, TensorDataset

SEED = 5
BITS = 8
SIZE, CLASSES = 20, 5
TRAIN, VAL, BATCH = 1500, 300, 50
EPOCHS, LR = 250, 2e-3
CHECKPOINT = "qat.pth"


class RoundSTE(Function):
    """Round in the forward pass, straight through in the backward pass."""

    @staticmethod
    def forward(ctx, x):
        return torch.round(x)

    @staticmethod
    def backward(ctx, grad_output):
        grad_input = torch.ones_like(grad_output)
        return grad_input


def quantize(x, bits=BITS):
    bound = 2 ** (bits - 1) - 1
    scale = x.detach().abs().max().clamp_min(1e-8) / bound
    return RoundSTE.apply(x / scale).clamp(-bound, bound) * scale


class QuantConv2d(nn.Conv2d):
    def forward(self, x):
        return F.conv2d(x, quantize(self.weight), self.bias, self.stride, self.padding)


class QuantLinear(nn.Linear):
    def forward(self, x):
        return F.linear(x, quantize(self.weight), self.bias)


class QuantNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = QuantConv2d(1, 12, 3, padding=1)
        self.bn1 = nn.BatchNorm2d(12)
        self.conv2 = QuantConv2d(12, 24, 3, padding=1)
        self.bn2 = nn.BatchNorm2d(24)
        self.fc1 = QuantLinear(24 * (SIZE // 4) ** 2, 64)
        self.fc2 = QuantLinear(64, CLASSES)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.bn1(self.conv1(x))), 2)
        x = F.max_pool2d(F.relu(self.bn2(self.conv2(x))), 2)
        return self.fc2(F.relu(self.fc1(x.flatten(1))))


def make_images(n, seed):
    """Stripe patterns of five orientations with random phase, wavelength and noise."""
    rng = np.random.default_rng(seed)
    labels = np.arange(n) % CLASSES
    rng.shuffle(labels)
    yy, xx = np.mgrid[:SIZE, :SIZE]
    angle = labels * np.pi / CLASSES + rng.normal(0, 0.05, n)
    wave = rng.uniform(4, 8, n)
    phase = rng.uniform(0, 2 * np.pi, n)
    proj = np.cos(angle)[:, None, None] * xx + np.sin(angle)[:, None, None] * yy
    images = np.sin(2 * np.pi * proj / wave[:, None, None] + phase[:, None, None])
    images += rng.normal(0, 0.4, images.shape)
    return images[:, None].astype(np.float32), labels


def build_loaders(generator):
    train_x, train_y = make_images(TRAIN, SEED)
    val_x, val_y = make_images(VAL, SEED + 1)
    mean, std = train_x.mean(), train_x.std()
    train = TensorDataset(torch.from_numpy((train_x - mean) / std), torch.from_numpy(train_y))
    val = TensorDataset(torch.from_numpy((val_x - mean) / std), torch.from_numpy(val_y))
    return (DataLoader(train, BATCH, shuffle=True, generator=generator), DataLoader(val, BATCH))


@torch.no_grad()
def validate(model, loader):
    model.eval()
    loss, right, n = 0.0, 0, 0
    for x, y in loader:
        out = model(x)
        loss += F.cross_entropy(out, y, reduction="sum").item()
        right += (out.argmax(1) == y).sum().item()
        n += len(y)
    return loss / n, right / n


def main():
    random.seed(SEED)
    np.random.seed(SEED)
    torch.manual_seed(SEED)
    generator = torch.Generator().manual_seed(SEED)
    train_loader, val_loader = build_loaders(generator)
    model = QuantNet()
    optimizer = torch.optim.Adam(model.parameters(), lr=LR)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, EPOCHS)
    begin = 0
    if os.path.exists(CHECKPOINT):
        ckpt = torch.load(CHECKPOINT)
        model.load_state_dict(ckpt["state_dict"])
        optimizer.load_state_dict(ckpt["optimizer"])
        scheduler.load_state_dict(ckpt["scheduler"])
        generator.set_state(ckpt["generator"])
        torch.set_rng_state(ckpt["rng"])
        begin = ckpt["epoch"]
    for epoch in range(begin, EPOCHS):
        model.train()
        total = 0.0
        for x, y in train_loader:
            loss = F.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item() * len(y)
        scheduler.step()
        val_loss, val_acc = validate(model, val_loader)
        print(f"Epoch {epoch + 1}/{EPOCHS} loss {total / TRAIN:.4f} val_loss {val_loss:.4f} val_acc {val_acc:.3f}",
              flush=True)
        torch.save({"state_dict": model.state_dict(), "optimizer": optimizer.state_dict(),
                    "scheduler": scheduler.state_dict(), "generator": generator.get_state(),
                    "rng": torch.get_rng_state(), "epoch": epoch + 1}, CHECKPOINT)


if __name__ == "__main__":
    main()

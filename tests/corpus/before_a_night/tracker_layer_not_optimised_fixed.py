"""Siamese tracker: find the template patch inside a larger search patch."""
import argparse
import os
import random

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

TEMPLATE, SEARCH, STRIDE = 16, 32, 2


def make_pairs(n, seed):
    """Textured targets pasted into cluttered search regions at integer offsets."""
    rng = np.random.default_rng(seed)
    template = np.zeros((n, 1, TEMPLATE, TEMPLATE), dtype=np.float32)
    search = rng.normal(0, 0.5, (n, 1, SEARCH, SEARCH)).astype(np.float32)
    offset = np.zeros((n, 2), dtype=np.int64)
    for i in range(n):
        coarse = rng.normal(0, 1, (4, 4))
        patch = np.kron(coarse, np.ones((4, 4)))
        y, x = rng.integers(0, (SEARCH - TEMPLATE) // STRIDE + 1, 2)
        template[i, 0] = patch + rng.normal(0, 0.1, patch.shape)
        search[i, 0, y * STRIDE:y * STRIDE + TEMPLATE, x * STRIDE:x * STRIDE + TEMPLATE] = (
            patch * rng.uniform(0.8, 1.2) + rng.normal(0, 0.2, patch.shape))
        offset[i] = y, x
    return TensorDataset(torch.from_numpy(template), torch.from_numpy(search), torch.from_numpy(offset))


class Backbone(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(1, width, 3, stride=STRIDE, padding=1), nn.BatchNorm2d(width), nn.ReLU())
        self.layers = nn.ModuleList(
            nn.Sequential(nn.Conv2d(width, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU()) for _ in range(3))

    def forward(self, x):
        x, outs = self.stem(x), []
        for layer in self.layers:
            x = layer(x)
            outs.append(x)
        return outs


def xcorr_depthwise(search, kernel):
    b, c, h, w = search.shape
    out = F.conv2d(search.reshape(1, b * c, h, w), kernel.reshape(b * c, 1, *kernel.shape[2:]), groups=b * c)
    return out.view(b, c, *out.shape[2:]) / (kernel.shape[2] * kernel.shape[3])


class CARHead(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.tower = nn.Sequential(nn.Conv2d(channels, channels, 3, padding=1), nn.BatchNorm2d(channels), nn.ReLU())
        self.cls = nn.Conv2d(channels, 1, 1)

    def forward(self, x):
        return self.cls(self.tower(x)).flatten(1)


class ModelBuilder(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.backbone = Backbone(width)
        self.down = nn.ConvTranspose2d(width * 3, width, 1, 1)
        self.car_head = CARHead(width)

    def forward(self, template, search):
        zf, xf = self.backbone(template), self.backbone(search)
        features = torch.cat([xcorr_depthwise(x, z) for x, z in zip(xf, zf)], 1)
        return self.car_head(self.down(features))


def build_optimizer(model, base_lr, momentum, weight_decay):
    trainable_params = [{"params": model.backbone.parameters(), "lr": base_lr}]
    trainable_params += [{"params": model.down.parameters(), "lr": base_lr}]
    trainable_params += [{"params": model.car_head.parameters(), "lr": base_lr}]
    return torch.optim.SGD(trainable_params, lr=base_lr, momentum=momentum, weight_decay=weight_decay)


def target_index(offset):
    return offset[:, 0] * ((SEARCH - TEMPLATE) // STRIDE + 1) + offset[:, 1]


@torch.no_grad()
def evaluate(model, loader):
    model.eval()
    loss, hit, n = 0.0, 0, 0
    for template, search, offset in loader:
        logits, target = model(template, search), target_index(offset)
        loss += F.cross_entropy(logits, target, reduction="sum").item()
        hit += (logits.argmax(1) == target).sum().item()
        n += len(target)
    return loss / n, hit / n


def main():
    parser = argparse.ArgumentParser(description="siamese tracking")
    parser.add_argument("--epochs", type=int, default=200)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--base_lr", type=float, default=0.05)
    parser.add_argument("--momentum", type=float, default=0.9)
    parser.add_argument("--weight_decay", type=float, default=1e-4)
    parser.add_argument("--seed", type=int, default=123456)
    parser.add_argument("--snapshot", default="siam_checkpoint.pth")
    args = parser.parse_args()
    random.seed(args.seed)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)

    generator = torch.Generator().manual_seed(args.seed)
    train_loader = DataLoader(make_pairs(800, 1), args.batch, shuffle=True, generator=generator)
    val_loader = DataLoader(make_pairs(160, 2), args.batch)
    model = ModelBuilder()
    optimizer = build_optimizer(model, args.base_lr, args.momentum, args.weight_decay)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, args.epochs, eta_min=5e-4)
    start = 0
    if os.path.exists(args.snapshot):
        state = torch.load(args.snapshot)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        scheduler.load_state_dict(state["scheduler"])
        generator.set_state(state["generator"])
        torch.set_rng_state(state["rng"])
        start = state["epoch"] + 1
    for epoch in range(start, args.epochs):
        model.train()
        total, seen = 0.0, 0
        for template, search, offset in train_loader:
            loss = F.cross_entropy(model(template, search), target_index(offset))
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 5.0)
            optimizer.step()
            total += loss.item() * len(offset)
            seen += len(offset)
        scheduler.step()
        val_loss, hit = evaluate(model, val_loader)
        print(f"epoch {epoch} loss {total / seen:.4f} val {val_loss:.4f} hit {hit:.3f}", flush=True)
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(),
                    "scheduler": scheduler.state_dict(), "generator": generator.get_state(),
                    "rng": torch.get_rng_state(), "epoch": epoch}, args.snapshot)


if __name__ == "__main__":
    main()

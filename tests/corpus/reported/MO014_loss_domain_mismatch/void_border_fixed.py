# Building footprints from small aerial tiles: binary segmentation with a void border.
import argparse
import time
from typing import Optional

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.modules.loss import _Loss
from torch.utils.data import DataLoader, Dataset

torch.set_num_threads(1)
VOID = 255


def soft_dice_score(output, target, smooth=0.0, eps=1e-7, dims=None):
    assert output.size() == target.size()
    intersection = torch.sum(output * target, dim=dims)
    cardinality = torch.sum(output + target, dim=dims)
    return (2.0 * intersection + smooth) / (cardinality + smooth).clamp_min(eps)


class DiceLoss(_Loss):
    """Dice loss for binary segmentation.

    Args:
        from_logits: If True, assumes input is raw logits
        smooth: Smoothness constant for dice coefficient
        ignore_index: Label that indicates ignored pixels (does not contribute to loss)
        eps: A small epsilon for numerical stability to avoid zero division error
    """

    def __init__(self, from_logits: bool = True, smooth: float = 0.0, ignore_index: Optional[int] = None,
                 eps: float = 1e-7):
        super().__init__()
        self.from_logits = from_logits
        self.smooth = smooth
        self.eps = eps
        self.ignore_index = ignore_index

    def forward(self, y_pred: torch.Tensor, y_true: torch.Tensor) -> torch.Tensor:
        assert y_true.size(0) == y_pred.size(0)
        if self.from_logits:
            # Apply activations to get [0..1] class probabilities
            # Using Log-Exp as this gives more numerically stable result and does not cause vanishing gradient on
            # extreme values 0 and 1
            y_pred = F.logsigmoid(y_pred).exp()

        bs = y_true.size(0)
        y_true = y_true.view(bs, 1, -1)
        y_pred = y_pred.view(bs, 1, -1)

        if self.ignore_index is not None:
            mask = y_true != self.ignore_index
            y_pred = y_pred * mask
            y_true = y_true * mask

        scores = soft_dice_score(y_pred, y_true.type_as(y_pred), smooth=self.smooth, eps=self.eps, dims=(0, 2))
        loss = 1.0 - scores
        return loss.mean()


class Tiles(Dataset):
    def __init__(self, count, size, seed):
        rng = np.random.default_rng(seed)
        self.images = np.empty((count, 3, size, size), np.float32)
        self.masks = np.empty((count, size, size), np.int64)
        yy, xx = np.mgrid[0:size, 0:size]
        for i in range(count):
            ground = rng.uniform(-0.6, 0.2, 3)
            img = ground[:, None, None] + 0.35 * rng.standard_normal((3, size, size))
            # roads are bright as well but long and thin
            road = np.abs((xx - rng.uniform(0, size)) * np.cos(a := rng.uniform(0, np.pi)) +
                          (yy - rng.uniform(0, size)) * np.sin(a)) < 1.2
            img[:, road] += 1.0
            inside = np.zeros((size, size), bool)
            around = np.zeros((size, size), bool)
            for _ in range(rng.integers(2, 5)):
                cy, cx = rng.uniform(5, size - 5, 2)
                hh, hw = rng.uniform(4.0, 7.0, 2)
                angle = rng.uniform(0, np.pi / 2)
                u = np.abs((xx - cx) * np.cos(angle) + (yy - cy) * np.sin(angle))
                v = np.abs(-(xx - cx) * np.sin(angle) + (yy - cy) * np.cos(angle))
                roof = (u < hw) & (v < hh)
                img[:, roof] = rng.uniform(0.3, 1.1, 3)[:, None] + 0.25 * rng.standard_normal((3, roof.sum()))
                inside |= (u < hw - 0.7) & (v < hh - 0.7)
                around |= (u < hw + 0.7) & (v < hh + 0.7)
            mask = inside.astype(np.int64)
            mask[around & ~inside] = VOID  # the annotators were not sure about the edges
            self.images[i], self.masks[i] = img, mask

    def __len__(self):
        return len(self.images)

    def __getitem__(self, i):
        return torch.from_numpy(self.images[i]), torch.from_numpy(self.masks[i])


def block(cin, cout):
    return nn.Sequential(nn.Conv2d(cin, cout, 3, padding=1, bias=False), nn.BatchNorm2d(cout), nn.ReLU(inplace=True),
                         nn.Conv2d(cout, cout, 3, padding=1, bias=False), nn.BatchNorm2d(cout), nn.ReLU(inplace=True))


class Unet(nn.Module):
    def __init__(self, width=12):
        super().__init__()
        self.enc1, self.enc2, self.enc3 = block(3, width), block(width, 2 * width), block(2 * width, 4 * width)
        self.dec2, self.dec1 = block(6 * width, 2 * width), block(3 * width, width)
        self.segmentation_head = nn.Conv2d(width, 1, 1)

    def forward(self, x):
        e1 = self.enc1(x)
        e2 = self.enc2(F.max_pool2d(e1, 2))
        e3 = self.enc3(F.max_pool2d(e2, 2))
        d2 = self.dec2(torch.cat([e2, F.interpolate(e3, scale_factor=2.0, mode="nearest")], 1))
        d1 = self.dec1(torch.cat([e1, F.interpolate(d2, scale_factor=2.0, mode="nearest")], 1))
        return self.segmentation_head(d1)


class Meter:
    def __init__(self):
        self.inter = self.union = self.loss = self.n = 0

    def update(self, logits, mask, loss):
        valid = mask != VOID
        pred, true = (logits.squeeze(1) > 0) & valid, (mask == 1) & valid
        self.inter += (pred & true).sum().item()
        self.union += (pred | true).sum().item()
        self.loss += loss.item() * len(mask)
        self.n += len(mask)

    def __str__(self):
        return f"dice_loss - {self.loss / self.n:.4f}, iou_score - {self.inter / max(self.union, 1):.4f}"


def run_epoch(model, loss_fn, loader, optimizer=None, scheduler=None):
    model.train(optimizer is not None)
    meter = Meter()
    with torch.set_grad_enabled(optimizer is not None):
        for image, mask in loader:
            logits = model(image)
            loss = loss_fn(logits, mask)
            if optimizer is not None:
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                scheduler.step()
            meter.update(logits.detach(), mask, loss.detach())
    return meter


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--tiles", type=int, default=1280)
    parser.add_argument("--size", type=int, default=32)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--lr", type=float, default=2e-3)
    args = parser.parse_args()

    torch.manual_seed(0)
    train_loader = DataLoader(Tiles(args.tiles, args.size, seed=1), args.batch, shuffle=True, drop_last=True)
    valid_loader = DataLoader(Tiles(256, args.size, seed=2), 64)

    model = Unet()
    loss_fn = DiceLoss(from_logits=True, smooth=1.0, ignore_index=VOID)
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, args.lr, total_steps=args.epochs * len(train_loader),
                                                    pct_start=0.15)
    for epoch in range(args.epochs):
        tic = time.time()
        train_logs = run_epoch(model, loss_fn, train_loader, optimizer, scheduler)
        valid_logs = run_epoch(model, loss_fn, valid_loader)
        print(f"Epoch: {epoch}  ({time.time() - tic:.1f}s)\n  train: {train_logs}\n  valid: {valid_logs}")

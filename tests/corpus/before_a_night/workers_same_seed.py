"""Segmentation of historical pages: text, decoration, comment on small synthetic crops; augmentation in the workers."""
import argparse
import os
import random

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

PAGE, CROP, CLASSES = 48, 32, 4


def draw_page(rng):
    """Parchment with text lines (1), a decorated initial (2) and marginal comments (3)."""
    img = 0.75 + 0.05 * rng.standard_normal((3, PAGE, PAGE)) + rng.normal(0, 0.05, (3, 1, 1))
    mask = np.zeros((PAGE, PAGE), dtype=np.int64)
    left, right = int(rng.integers(4, 10)), int(rng.integers(32, 38))
    for top in range(int(rng.integers(2, 5)), PAGE - 3, 6):
        end = right - int(rng.integers(0, 6))
        mask[top:top + 3, left:end] = 1
        img[:, top:top + 3, left:end] -= 0.45 * (rng.random((3, end - left)) < 0.7)
    s = int(rng.integers(6, 11))
    mask[3:3 + s, left:left + s] = 2
    img[:, 3:3 + s, left:left + s] = np.array([0.6, 0.15, 0.15])[:, None, None] + 0.08 * rng.standard_normal((3, s, s))
    for _ in range(2):
        t = int(rng.integers(8, PAGE - 8))
        mask[t:t + 4, 40:46] = 3
        img[:, t:t + 4, 40:46] -= 0.3 * (rng.random((4, 6)) < 0.6)
    return img.astype(np.float32), mask


class Pages(Dataset):
    def __init__(self, n, seed, train):
        rng = np.random.default_rng(seed)
        self.items = [draw_page(rng) for _ in range(n)]
        self.train = train

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        img, mask = self.items[i]
        if self.train:
            r, c = np.random.randint(0, PAGE - CROP + 1, 2)
            img, mask = img[:, r:r + CROP, c:c + CROP], mask[r:r + CROP, c:c + CROP]
            img = (img - 0.5) * np.random.uniform(0.8, 1.2) + 0.5 + np.random.uniform(-0.1, 0.1)
            if random.random() < 0.3:
                img = img + 0.05 * np.random.standard_normal(img.shape)
        return torch.from_numpy((np.ascontiguousarray(img) - 0.6) / 0.25).float(), torch.from_numpy(mask.copy())


class SegNet(nn.Module):
    def __init__(self, ch=16):
        super().__init__()
        block = lambda i, o: nn.Sequential(nn.Conv2d(i, o, 3, padding=1), nn.BatchNorm2d(o), nn.ReLU())
        self.e1, self.e2, self.e3 = block(3, ch), block(ch, 2 * ch), block(2 * ch, 2 * ch)
        self.d2, self.d1 = block(4 * ch, ch), block(2 * ch, ch)
        self.head = nn.Conv2d(ch, CLASSES, 1)

    def forward(self, x):
        a = self.e1(x)
        b = self.e2(F.max_pool2d(a, 2))
        c = self.e3(F.max_pool2d(b, 2))
        u = self.d2(torch.cat([F.interpolate(c, scale_factor=2.0), b], 1))
        return self.head(self.d1(torch.cat([F.interpolate(u, scale_factor=2.0), a], 1)))


def miou(conf):
    inter = conf.diag().float()
    return (inter / (conf.sum(0) + conf.sum(1) - conf.diag()).clamp(min=1).float()).mean().item()


def seed_worker(worker_id):
    worker_seed = 42
    np.random.seed(worker_seed)
    random.seed(worker_seed)


def validate(model, loader):
    model.eval()
    conf = torch.zeros(CLASSES, CLASSES, dtype=torch.long)
    with torch.no_grad():
        for x, y in loader:
            p = model(x).argmax(1)
            conf += torch.bincount((y * CLASSES + p).flatten(), minlength=CLASSES ** 2).view(CLASSES, CLASSES)
    return miou(conf)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--max_epochs", type=int, default=200)
    p.add_argument("--batch_size", type=int, default=8)
    p.add_argument("--num_workers", type=int, default=2)
    p.add_argument("--lr", type=float, default=2e-3)
    p.add_argument("--seed", type=int, default=42)
    p.add_argument("--ckpt", default="pages_last.pt")
    cfg = p.parse_args()
    random.seed(cfg.seed)
    np.random.seed(cfg.seed)
    torch.manual_seed(cfg.seed)
    torch.set_num_threads(1)

    gen = torch.Generator()
    train_loader = DataLoader(Pages(200, 1, True), cfg.batch_size, shuffle=True, num_workers=cfg.num_workers,
                              worker_init_fn=seed_worker, generator=gen, multiprocessing_context="fork")
    val_loader = DataLoader(Pages(24, 2, False), 8)
    model = SegNet()
    weight = torch.tensor([0.5, 1.0, 2.0, 2.0])
    optimizer = torch.optim.Adam(model.parameters(), lr=cfg.lr)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, cfg.max_epochs)
    first = 0
    if os.path.exists(cfg.ckpt):
        c = torch.load(cfg.ckpt)
        model.load_state_dict(c["model"])
        optimizer.load_state_dict(c["optimizer"])
        scheduler.load_state_dict(c["scheduler"])
        torch.set_rng_state(c["rng"])
        first = c["epoch"]
    for epoch in range(first, cfg.max_epochs):
        model.train()
        gen.manual_seed(cfg.seed + epoch)
        losses = []
        for x, y in train_loader:
            loss = F.cross_entropy(model(x), y, weight=weight)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        scheduler.step()
        print(f"epoch {epoch} loss {np.mean(losses):.4f} val mIoU {validate(model, val_loader):.3f}", flush=True)
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(),
                    "scheduler": scheduler.state_dict(), "rng": torch.get_rng_state(), "epoch": epoch + 1}, cfg.ckpt)


if __name__ == "__main__":
    main()

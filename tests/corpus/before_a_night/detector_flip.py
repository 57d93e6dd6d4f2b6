"""Single-class detector on synthetic aerial tiles: a grid head predicts objectness and a box per cell."""
import argparse
import os
import random

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset


def get_args():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=300)
    ap.add_argument("--batch-size", type=int, default=16)
    ap.add_argument("--lr", type=float, default=2e-3)
    ap.add_argument("--seed", type=int, default=5)
    ap.add_argument("--snapshot", default="detector.pth")
    return ap.parse_args()


SIZE, GRID = 48, 6
CELL = SIZE // GRID


def draw(n, seed):
    rng = np.random.default_rng(seed)
    images = rng.normal(0.0, 0.15, (n, 3, SIZE, SIZE)).astype(np.float32)
    boxes = []
    for i in range(n):
        images[i] += rng.uniform(-0.2, 0.2, (3, 1, 1))
        bs = []
        for _ in range(rng.integers(1, 3)):
            w, h = rng.integers(6, 15, 2)
            x, y = rng.integers(0, SIZE - w), rng.integers(0, SIZE - h)
            images[i, :, y:y + h, x:x + w] = np.array([0.9, 0.5, -0.4])[:, None, None] + rng.normal(0, 0.1, (3, h, w))
            images[i, 2, y:y + h, x:x + 2] = 1.2
            bs.append((x, y, x + w, y + h))
        boxes.append(np.array(bs, dtype=np.float32))
    return images, boxes


class Tiles(Dataset):
    def __init__(self, n, seed, augment):
        self.images, self.boxes = draw(n, seed)
        self.augment = augment

    def __len__(self):
        return len(self.images)

    def flip_image(self, image, flip):
        return image[:, :, ::-1].copy() if flip else image

    def flip_boxes(self, boxes, flip):
        if not flip:
            return boxes
        out = boxes.copy()
        out[:, 0], out[:, 2] = SIZE - boxes[:, 2], SIZE - boxes[:, 0]
        return out

    def __getitem__(self, i):
        image, boxes = self.images[i], self.boxes[i]
        if self.augment:
            image = self.flip_image(image, np.random.rand() < 0.5)
            boxes = self.flip_boxes(boxes, np.random.rand() < 0.5)
        obj = np.zeros((GRID, GRID), np.float32)
        reg = np.zeros((4, GRID, GRID), np.float32)
        for x1, y1, x2, y2 in boxes:
            cx, cy = (x1 + x2) / 2, (y1 + y2) / 2
            gx, gy = min(int(cx // CELL), GRID - 1), min(int(cy // CELL), GRID - 1)
            obj[gy, gx] = 1.0
            reg[:, gy, gx] = cx / CELL - gx - 0.5, cy / CELL - gy - 0.5, np.log((x2 - x1) / CELL), np.log((y2 - y1) / CELL)
        return torch.from_numpy(image), torch.from_numpy(obj), torch.from_numpy(reg)


class Detector(nn.Module):
    def __init__(self):
        super().__init__()
        def block(i, o, s):
            return nn.Sequential(nn.Conv2d(i, o, 3, s, 1), nn.GroupNorm(4, o), nn.SiLU())
        self.body = nn.Sequential(block(3, 16, 2), block(16, 32, 2), block(32, 64, 2), block(64, 64, 1))
        self.obj = nn.Conv2d(64, 1, 1)
        self.reg = nn.Conv2d(64, 4, 1)

    def forward(self, x):
        f = self.body(x)
        return self.obj(f).squeeze(1), self.reg(f)


def detection_loss(out, obj, reg):
    o, r = out
    cls = F.binary_cross_entropy_with_logits(o, obj, reduction="sum") / obj.sum().clamp(min=1)
    box = (F.smooth_l1_loss(r, reg, reduction="none").sum(1) * obj).sum() / obj.sum().clamp(min=1)
    return cls + box


def main():
    args = get_args()
    random.seed(args.seed)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)
    gen = torch.Generator().manual_seed(args.seed)
    train = DataLoader(Tiles(384, 100, True), args.batch_size, shuffle=True, generator=gen)
    val = DataLoader(Tiles(128, 200, False), 64)
    net = Detector()
    opt = torch.optim.AdamW(net.parameters(), lr=args.lr, weight_decay=1e-4)
    sched = torch.optim.lr_scheduler.OneCycleLR(opt, args.lr, epochs=args.epochs, steps_per_epoch=len(train), pct_start=0.05)
    start = 0
    if os.path.exists(args.snapshot):
        s = torch.load(args.snapshot, weights_only=False)
        net.load_state_dict(s["net"]); opt.load_state_dict(s["opt"]); sched.load_state_dict(s["sched"])
        start = s["epoch"]
        torch.set_rng_state(s["rng"][0]); np.random.set_state(s["rng"][1]); random.setstate(s["rng"][2]); gen.set_state(s["rng"][3])
    for epoch in range(start, args.epochs):
        net.train()
        for it, (img, obj, reg) in enumerate(train):
            loss = detection_loss(net(img), obj, reg)
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(net.parameters(), 10.0)
            opt.step()
            sched.step()
            if it % 4 == 0:
                print(f"epoch {epoch} it {it} loss {loss.item():.4f}")
        net.eval()
        with torch.no_grad():
            v = sum(detection_loss(net(i), o, r).item() for i, o, r in val) / len(val)
        print(f"epoch {epoch} val {v:.4f}")
        torch.save({"net": net.state_dict(), "opt": opt.state_dict(), "sched": sched.state_dict(), "epoch": epoch + 1,
                    "rng": (torch.get_rng_state(), np.random.get_state(), random.getstate(), gen.get_state())}, args.snapshot + "~")
        os.replace(args.snapshot + "~", args.snapshot)


if __name__ == "__main__":
    main()

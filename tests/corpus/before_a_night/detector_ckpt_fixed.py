"""Iteration based training of a one-stage detector on made-up scenes, with a periodic checkpointer."""
import argparse
import os
import random

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

SIDE, STRIDE, CLASSES = 64, 8, 3


def scene(rng):
    img = 0.5 * rng.standard_normal((3, SIDE, SIDE)).astype(np.float32)
    g = SIDE // STRIDE
    cls, box = np.zeros((g, g), np.int64), np.zeros((4, g, g), np.float32)
    for _ in range(rng.integers(1, 5)):
        k, h, w = rng.integers(CLASSES), rng.integers(8, 20), rng.integers(8, 20)
        y, x = rng.integers(0, SIDE - h), rng.integers(0, SIDE - w)
        yy, xx = np.mgrid[0:h, 0:w]
        if k == 0:
            m = np.ones((h, w), bool)
        elif k == 1:
            m = ((yy - h / 2) / (h / 2)) ** 2 + ((xx - w / 2) / (w / 2)) ** 2 < 1
        else:
            m = np.abs(xx - w / 2) < (yy + 1) / 2 * w / h
        img[:, y:y + h, x:x + w] += m * rng.uniform(0.8, 2.0, 3)[:, None, None]
        cy, cx = int((y + h / 2) // STRIDE), int((x + w / 2) // STRIDE)
        cls[cy, cx] = k + 1
        box[:, cy, cx] = ((y + h / 2) / STRIDE - cy, (x + w / 2) / STRIDE - cx, np.log(h / 12), np.log(w / 12))
    return img, cls, box


def batch(rng, n):
    imgs, cls, boxes = zip(*[scene(rng) for _ in range(n)])
    return torch.from_numpy(np.stack(imgs)), torch.from_numpy(np.stack(cls)), torch.from_numpy(np.stack(boxes))


def cbr(i, o, s=1):
    return nn.Sequential(nn.Conv2d(i, o, 3, s, 1, bias=False), nn.BatchNorm2d(o), nn.ReLU(inplace=True))


class Detector(nn.Module):
    def __init__(self, w=32):
        super().__init__()
        self.backbone = nn.Sequential(cbr(3, w, 2), cbr(w, 2 * w, 2), cbr(2 * w, 4 * w, 2), cbr(4 * w, 8 * w),
                                      cbr(8 * w, 8 * w), cbr(8 * w, 8 * w))
        self.cls = nn.Sequential(cbr(8 * w, 4 * w), nn.Conv2d(4 * w, CLASSES + 1, 1))
        self.box = nn.Sequential(cbr(8 * w, 4 * w), nn.Conv2d(4 * w, 4, 1))

    def forward(self, x):
        f = self.backbone(x)
        return self.cls(f), self.box(f)


def losses(model, img, cls, box):
    logits, reg = model(img)
    weight = torch.tensor([0.1] + [1.0] * CLASSES)
    pos = (cls > 0).unsqueeze(1).float()
    l_box = (F.smooth_l1_loss(reg, box, reduction="none") * pos).sum() / pos.sum().clamp(min=1)
    return F.cross_entropy(logits, cls, weight=weight), l_box


class Checkpointer:
    def __init__(self, model, save_dir, **checkpointables):
        self.model, self.save_dir, self.checkpointables = model, save_dir, checkpointables
        os.makedirs(save_dir, exist_ok=True)

    def save(self, name, **kwargs):
        data = {"model": self.model.state_dict()}
        for key, obj in self.checkpointables.items():
            data[key] = obj.state_dict()
        data.update(kwargs)
        path = os.path.join(self.save_dir, f"{name}.pth")
        torch.save(data, path)
        with open(os.path.join(self.save_dir, "last_checkpoint"), "w") as f:
            f.write(os.path.basename(path))
        return path

    def resume_or_start(self):
        tag = os.path.join(self.save_dir, "last_checkpoint")
        if not os.path.exists(tag):
            return {}
        data = torch.load(os.path.join(self.save_dir, open(tag).read()), weights_only=False)
        self.model.load_state_dict(data.pop("model"))
        for key, obj in self.checkpointables.items():
            obj.load_state_dict(data.pop(key))
        return data


class PeriodicCheckpointer:
    """Saves when .step(iteration) is executed on multiples of period, or when max_iter is reached."""

    def __init__(self, checkpointer, period, max_iter, max_to_keep=None):
        self.checkpointer, self.period, self.max_iter = checkpointer, period, max_iter
        self.max_to_keep = max_to_keep
        self.recent_checkpoints = []

    def step(self, iteration, **kwargs):
        kwargs["iteration"] = iteration
        if (iteration + 1) % self.period == 0:
            self.recent_checkpoints.append(self.checkpointer.save("model_{:07d}".format(iteration), **kwargs))
            if self.max_to_keep is not None and len(self.recent_checkpoints) > self.max_to_keep:
                file_to_delete = self.recent_checkpoints.pop(0)
                if os.path.exists(file_to_delete):
                    os.remove(file_to_delete)
        if iteration >= self.max_iter - 1:
            self.checkpointer.save("model_final", **kwargs)


@torch.no_grad()
def evaluate(model, seed=12345, n=6):
    model.eval()
    rng, hit, found, real = np.random.default_rng(seed), 0, 0, 0
    for _ in range(n):
        img, cls, _ = batch(rng, 32)
        pred = model(img)[0].argmax(1)
        hit += ((pred == cls) & (cls > 0)).sum().item()
        found, real = found + (pred > 0).sum().item(), real + (cls > 0).sum().item()
    model.train()
    return hit / max(found, 1), hit / real


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--max_iter", type=int, default=60000)
    p.add_argument("--ims_per_batch", type=int, default=16)
    p.add_argument("--base_lr", type=float, default=1e-3)
    p.add_argument("--checkpoint_period", type=int, default=50)
    p.add_argument("--eval_period", type=int, default=300)
    p.add_argument("--output_dir", default="det_output")
    p.add_argument("--seed", type=int, default=8)
    args = p.parse_args()
    random.seed(args.seed)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)

    model = Detector()
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.base_lr, weight_decay=1e-4)
    scheduler = torch.optim.lr_scheduler.MultiStepLR(optimizer, [args.max_iter * 2 // 3, args.max_iter * 8 // 9], 0.1)
    checkpointer = Checkpointer(model, args.output_dir, optimizer=optimizer, scheduler=scheduler)
    periodic = PeriodicCheckpointer(checkpointer, args.checkpoint_period, args.max_iter, max_to_keep=3)
    extra = checkpointer.resume_or_start()
    start = extra.get("iteration", -1) + 1
    periodic.recent_checkpoints = sorted(
        os.path.join(args.output_dir, f) for f in os.listdir(args.output_dir)
        if f.endswith(".pth") and "final" not in f)
    for it in range(start, args.max_iter):
        img, cls, box = batch(np.random.default_rng([args.seed, it]), args.ims_per_batch)
        l_cls, l_box = losses(model, img, cls, box)
        loss = l_cls + l_box
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()
        if it % 10 == 0:
            print(f"iter {it} total_loss {loss.item():.4f} cls {l_cls.item():.4f} box {l_box.item():.4f}", flush=True)
        if (it + 1) % args.eval_period == 0:
            print("iter %d precision %.3f recall %.3f" % ((it,) + evaluate(model)), flush=True)
        periodic.step(it)


if __name__ == "__main__":
    main()

"""Contrastive image-text training (two small towers) with warm-up and a cosine schedule."""
import argparse
import math
import os
import random

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

ap = argparse.ArgumentParser()
ap.add_argument("--max-epochs", type=int, default=240)
ap.add_argument("--batch-size", type=int, default=32)
ap.add_argument("--lr", type=float, default=2e-3)
ap.add_argument("--min-lr", type=float, default=2e-6)
ap.add_argument("--warmup-ratio", type=float, default=0.002)
ap.add_argument("--seed", type=int, default=77)
ap.add_argument("--work-dir", default="clip_work")


def pairs(n, seed):
    """An image with three coloured shapes and the caption that names them (token ids)."""
    rng = np.random.default_rng(seed)
    img = rng.normal(0, 0.1, (n, 3, 24, 24))
    cap = np.zeros((n, 9), np.int64)
    pal = np.array([[1, .1, .1], [.1, 1, .1], [.1, .1, 1], [1, 1, .1], [.1, 1, 1], [1, .1, 1]])
    for i in range(n):
        for k in range(3):
            col, place, kind = rng.integers(6), rng.integers(3), rng.integers(2)
            y, x = 8 * k + 1, 8 * place + 1
            if kind:
                img[i, :, y:y + 6, x:x + 6] += pal[col][:, None, None]
            else:
                img[i, :, y + 2:y + 4, x:x + 6] += pal[col][:, None, None]
                img[i, :, y:y + 6, x + 2:x + 4] += pal[col][:, None, None]
            cap[i, 3 * k:3 * k + 3] = 1 + col, 7 + place, 10 + kind
    return torch.tensor(img, dtype=torch.float32), torch.from_numpy(cap)


class Towers(nn.Module):
    def __init__(self, dim=64):
        super().__init__()
        self.visual = nn.Sequential(nn.Conv2d(3, 24, 4, 4), nn.GELU(), nn.Conv2d(24, 48, 2, 2), nn.GELU(),
                                    nn.Flatten(), nn.Linear(48 * 9, 128), nn.GELU(), nn.Linear(128, dim))
        self.token = nn.Embedding(12, 32)
        self.text = nn.Sequential(nn.Flatten(), nn.Linear(9 * 32, 128), nn.GELU(), nn.Linear(128, dim))
        self.logit_scale = nn.Parameter(torch.tensor(math.log(1 / 0.07)))

    def forward(self, img, cap):
        return F.normalize(self.visual(img), dim=-1), F.normalize(self.text(self.token(cap)), dim=-1)


def clip_loss(model, img, cap):
    a, b = model(img, cap)
    logits = model.logit_scale.exp().clamp(max=100) * a @ b.T
    # the same caption may occur twice in a batch: such pairs are positives as well
    same = (cap[:, None] == cap[None]).all(-1).float()
    t = same / same.sum(1, keepdim=True)
    return 0.5 * (F.cross_entropy(logits, t) + F.cross_entropy(logits.T, t))


def build_schedule(opt, args, epoch_length):
    total = args.max_epochs * epoch_length
    warm = max(1, int(args.warmup_ratio * total))
    linear = torch.optim.lr_scheduler.LinearLR(opt, start_factor=0.01, total_iters=warm)
    begin, end = warm, total
    floor = args.min_lr / args.lr

    def cosine(step):
        # by iterations, from `begin` to `end`; constant before and after
        t = min(max(step, 0), end - begin) / max(1, end - begin)
        return floor + (1 - floor) * 0.5 * (1 + math.cos(math.pi * t))

    decay = torch.optim.lr_scheduler.LambdaLR(opt, cosine)
    return torch.optim.lr_scheduler.SequentialLR(opt, [linear, decay], milestones=[warm])


def main():
    args = ap.parse_args()
    random.seed(args.seed)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)
    os.makedirs(args.work_dir, exist_ok=True)
    gen = torch.Generator().manual_seed(args.seed)
    train = DataLoader(TensorDataset(*pairs(768, 1)), args.batch_size, shuffle=True, drop_last=True, generator=gen)
    val = DataLoader(TensorDataset(*pairs(128, 2)), 64)
    model = Towers()
    opt = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=0.01)
    sched = build_schedule(opt, args, len(train))
    path = os.path.join(args.work_dir, "latest.pt")
    start = 0
    if os.path.exists(path):
        c = torch.load(path, weights_only=False)
        model.load_state_dict(c["model"])
        opt.load_state_dict(c["opt"])
        sched.load_state_dict(c["sched"])
        start = c["epoch"]
        torch.set_rng_state(c["rng"]["torch"])
        np.random.set_state(c["rng"]["numpy"])
        random.setstate(c["rng"]["python"])
        gen.set_state(c["rng"]["loader"])
    for epoch in range(start, args.max_epochs):
        model.train()
        for i, (img, cap) in enumerate(train):
            loss = clip_loss(model, img, cap)
            opt.zero_grad()
            loss.backward()
            opt.step()
            sched.step()
            if i % 6 == 0:
                print(f"epoch {epoch} iter {i} loss {loss.item():.4f} lr {sched.get_last_lr()[0]:.2e}")
        model.eval()
        with torch.no_grad():
            v = np.mean([clip_loss(model, a, b).item() for a, b in val])
        print(f"epoch {epoch} val loss {v:.4f}")
        torch.save({"model": model.state_dict(), "opt": opt.state_dict(), "sched": sched.state_dict(), "epoch": epoch + 1,
                    "rng": {"torch": torch.get_rng_state(), "numpy": np.random.get_state(),
                            "python": random.getstate(), "loader": gen.get_state()}}, path + ".tmp")
        os.replace(path + ".tmp", path)


if __name__ == "__main__":
    main()

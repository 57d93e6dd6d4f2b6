"""Lesion detection in volumes with a 3D U-Net; validation scores the detection maps of all cases."""
import argparse
import os
import random

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

SHAPE = (16, 64, 64)


class Cases(Dataset):
    """Three-sequence studies, drawn from their case number; about 60 % have a lesion."""

    def __init__(self, n, seed):
        self.n, self.seed = n, seed
        zz, yy, xx = np.mgrid[0:SHAPE[0], 0:SHAPE[1], 0:SHAPE[2]].astype(np.float32)
        self.grid = (zz, yy, xx)

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        rng = np.random.default_rng([self.seed, i])
        zz, yy, xx = self.grid
        gland = ((zz - 8) / 7) ** 2 + ((yy - 32) / 22) ** 2 + ((xx - 32) / 20) ** 2
        img = 0.4 * rng.standard_normal((3,) + SHAPE, dtype=np.float32)
        img += (gland < 1) * np.array([0.8, 0.3, 0.1], np.float32)[:, None, None, None]
        seg = np.zeros(SHAPE, np.uint8)
        if rng.random() < 0.6:
            c = [8 + rng.uniform(-3, 3), 32 + rng.uniform(-12, 12), 32 + rng.uniform(-11, 11)]
            r = rng.uniform(3.5, 7)
            blob = ((zz - c[0]) * 2.2) ** 2 + (yy - c[1]) ** 2 + (xx - c[2]) ** 2 < r ** 2
            seg[blob] = 1
            img[:, blob] += np.array([-0.7, 1.0, 0.9], np.float32)[:, None]
        return torch.from_numpy(img), torch.from_numpy(seg).long()


def block(i, o):
    return nn.Sequential(nn.Conv3d(i, o, 3, padding=1), nn.InstanceNorm3d(o), nn.LeakyReLU(inplace=True))


class UNet3D(nn.Module):
    def __init__(self, w=8):
        super().__init__()
        self.e1, self.e2, self.e3 = block(3, w), block(w, 2 * w), block(2 * w, 4 * w)
        self.d2, self.d1 = block(6 * w, 2 * w), block(3 * w, w)
        self.out = nn.Conv3d(w, 2, 1)

    def forward(self, x):
        a = self.e1(x)
        b = self.e2(F.max_pool3d(a, (1, 2, 2)))
        c = self.e3(F.max_pool3d(b, 2))
        b = self.d2(torch.cat([F.interpolate(c, scale_factor=2), b], 1))
        return self.out(self.d1(torch.cat([F.interpolate(b, scale_factor=(1, 2, 2)), a], 1)))


def focal_loss(logits, y, alpha=0.75, gamma=2.0):
    ce = F.cross_entropy(logits, y, reduction="none")
    at = torch.where(y > 0, alpha, 1 - alpha)
    return (at * (1 - torch.exp(-ce)) ** gamma * ce).sum() / (y > 0).sum().clamp(min=200)


def case_score(pred, label):
    """Patient level score, and whether the strongest voxel lies in the lesion."""
    z = np.unravel_index(pred.argmax(), pred.shape)
    return float(pred.max()), int(label.max()), bool(label[z])


def auroc(scores, labels):
    order = np.argsort(scores)
    rank = np.empty(len(scores))
    rank[order] = np.arange(1, len(scores) + 1)
    pos = np.array(labels) == 1
    n1, n0 = pos.sum(), (~pos).sum()
    return (rank[pos].sum() - n1 * (n1 + 1) / 2) / max(n1 * n0, 1)


def validate_model(model, valid_gen):
    model.eval()
    all_valid_preds, all_valid_labels = [], []
    for n, (image, label) in enumerate(valid_gen):
        with torch.no_grad():
            # test-time augmentation: original and mirrored
            preds = [torch.softmax(model(image), 1)[:, 1].numpy(),
                     torch.softmax(model(image.flip(-1)), 1)[:, 1].flip(-1).numpy()]
        all_valid_preds += [[p[k] for p in preds] for k in range(len(image))]
        all_valid_labels += [l for l in label.numpy()]
    results = [case_score(np.mean(p, axis=0), l) for p, l in zip(all_valid_preds, all_valid_labels)]
    scores, labels, hits = zip(*results)
    found = sum(h for h, l in zip(hits, labels) if l) / max(sum(labels), 1)
    return auroc(np.array(scores), labels), found


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--num_epochs", type=int, default=200)
    p.add_argument("--steps_per_epoch", type=int, default=60)
    p.add_argument("--validate_n_epochs", type=int, default=1)
    p.add_argument("--train_cases", type=int, default=1600)
    p.add_argument("--valid_cases", type=int, default=400)
    p.add_argument("--batch_size", type=int, default=2)
    p.add_argument("--base_lr", type=float, default=2e-3)
    p.add_argument("--weights_dir", default="lesion_weights")
    p.add_argument("--seed", type=int, default=1)
    args = p.parse_args()
    random.seed(args.seed)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)
    os.makedirs(args.weights_dir, exist_ok=True)

    train_gen = DataLoader(Cases(args.train_cases, 1), args.batch_size, shuffle=True, drop_last=True)
    valid_gen = DataLoader(Cases(args.valid_cases, 2), args.batch_size)
    model = UNet3D()
    optimizer = torch.optim.Adam(model.parameters(), lr=args.base_lr)
    scheduler = torch.optim.lr_scheduler.PolynomialLR(optimizer, args.num_epochs, power=0.9)
    feed, best = iter(train_gen), 0.0
    for epoch in range(args.num_epochs):
        model.train()
        for step in range(args.steps_per_epoch):
            try:
                image, label = next(feed)
            except StopIteration:
                feed = iter(train_gen)
                image, label = next(feed)
            loss = focal_loss(model(image), label)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if step % 5 == 0:
                print(f"epoch {epoch + 1}/{args.num_epochs} step {step}/{args.steps_per_epoch} "
                      f"train_loss {loss.item():.4f}", flush=True)
        scheduler.step()
        if (epoch + 1) % args.validate_n_epochs == 0:
            auc, found = validate_model(model, valid_gen)
            print(f"epoch {epoch + 1} valid auroc {auc:.3f} lesions found {found:.3f}", flush=True)
            if (auc + found) / 2 > best:
                best = (auc + found) / 2
                torch.save({"epoch": epoch, "model_state_dict": model.state_dict()},
                           os.path.join(args.weights_dir, "best.pt"))


if __name__ == "__main__":
    main()

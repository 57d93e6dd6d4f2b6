"""Depth prediction on top of a pre-trained recognition backbone.

Stage 1 trains the backbone on surface recognition.  Stage 2 keeps the backbone fixed
(set --finetune to train everything end to end) and learns the depth part on its features.
"""
import argparse
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

SURFACES = ["brick", "planks", "tiles", "hatch", "carpet", "plaster"]


def surface(rng, kind, size):
    yy, xx = np.mgrid[0:size, 0:size].astype(np.float32)
    period = rng.uniform(4.0, 7.0)
    phase = rng.uniform(0, 2 * np.pi)
    w = 2 * np.pi / period
    if kind == 0:
        t = np.sin(w * yy + phase)
    elif kind == 1:
        t = np.sin(w * xx + phase)
    elif kind == 2:
        t = np.sin(w * xx + phase) * np.sin(w * yy + phase)
    elif kind == 3:
        t = np.sin(w * (xx + yy) * 0.7 + phase)
    elif kind == 4:
        t = rng.standard_normal((size, size)).astype(np.float32)
    else:
        t = 0.2 * rng.standard_normal((size, size)).astype(np.float32)
    return 0.5 + 0.3 * np.clip(t, -1.5, 1.5)


def render(rng, size):
    """One picture: a textured slanted wall with a box in front, seen through haze."""
    yy, xx = np.mgrid[0:size, 0:size].astype(np.float32) / size - 0.5
    depth = rng.uniform(2.0, 4.0) + rng.uniform(-1.5, 1.5) * xx + rng.uniform(-1.0, 1.0) * yy
    kind = rng.integers(len(SURFACES))
    albedo = surface(rng, kind, size)
    h, w = rng.integers(8, 16, size=2)
    y0, x0 = rng.integers(0, size - h), rng.integers(0, size - w)
    depth[y0:y0 + h, x0:x0 + w] = rng.uniform(0.8, 1.8)
    trans = np.exp(-0.45 * depth)
    tint = np.array([0.70, 0.78, 0.90], dtype=np.float32)
    img = albedo[None] * trans[None] + tint[:, None, None] * (1 - trans[None])
    img = img + 0.02 * rng.standard_normal(img.shape)
    return img.astype(np.float32), depth.astype(np.float32), kind


class Scenes(torch.utils.data.Dataset):
    def __init__(self, n, size, seed):
        rng = np.random.default_rng(seed)
        frames = [render(rng, size) for _ in range(n)]
        self.images = (torch.from_numpy(np.stack([f[0] for f in frames])) - 0.6) / 0.2
        self.depths = torch.from_numpy(np.stack([f[1] for f in frames]))
        self.kinds = torch.tensor([int(f[2]) for f in frames])

    def __len__(self):
        return len(self.images)

    def __getitem__(self, i):
        return self.images[i], self.depths[i], self.kinds[i]


class FeatExtractor(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(3, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16), nn.ReLU(inplace=True),
            nn.Conv2d(16, 32, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(32), nn.ReLU(inplace=True),
            nn.Conv2d(32, 48, 3, padding=1, bias=False), nn.BatchNorm2d(48), nn.ReLU(inplace=True))

    def forward(self, x):
        return self.layers(x)


class MVSNet(nn.Module):
    def __init__(self, feat_extractor, feat_dim=24):
        super().__init__()
        self.feat_extractor = feat_extractor
        self.feat_shrinker = nn.Conv2d(48, feat_dim, 1)

    def forward(self, images):
        return self.feat_shrinker(self.feat_extractor(images))


class DepthNet(nn.Module):
    def __init__(self, feat_extractor, feat_dim=24):
        super().__init__()
        self.mvsnet = MVSNet(feat_extractor, feat_dim)
        self.decoder = nn.Sequential(
            nn.Conv2d(feat_dim, 32, 3, padding=1), nn.GroupNorm(4, 32), nn.ReLU(inplace=True),
            nn.Conv2d(32, 1, 3, padding=1))
        self.refine_full = nn.Sequential(
            nn.Conv2d(4, 16, 3, padding=1), nn.ReLU(inplace=True), nn.Conv2d(16, 1, 3, padding=1))

    def forward(self, images):
        coarse = 2.5 + self.decoder(self.mvsnet(images))
        up = F.interpolate(coarse, images.shape[-2:], mode="nearest")
        full = up + self.refine_full(torch.cat([images, up], dim=1))
        return coarse.squeeze(1), full.squeeze(1)


def pretrain(extractor, loader, epochs):
    head = nn.Linear(48, len(SURFACES))
    opt = torch.optim.Adam(list(extractor.parameters()) + list(head.parameters()), lr=2e-3)
    for epoch in range(epochs):
        extractor.train()
        total, hits, n = 0.0, 0, 0
        for images, _, kinds in loader:
            logits = head(extractor(images).mean(dim=(2, 3)))
            loss = F.cross_entropy(logits, kinds)
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item() * len(kinds)
            hits += (logits.argmax(1) == kinds).sum().item()
            n += len(kinds)
        print(f"[surfaces] epoch {epoch}  loss {total / n:.4f}  acc {hits / n:.3f}")
    return head


@torch.no_grad()
def recognition_accuracy(extractor, head, loader):
    extractor.eval()
    hits = n = 0
    for images, _, kinds in loader:
        hits += (head(extractor(images).mean(dim=(2, 3))).argmax(1) == kinds).sum().item()
        n += len(kinds)
    return hits / n


def configure_optimizers(model, args):
    optimizer = torch.optim.Adam([
        {"params": model.mvsnet.feat_shrinker.parameters()},
        {"params": model.decoder.parameters()},
        {"params": model.refine_full.parameters()},
    ], lr=args.lr)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=args.lr_step, gamma=0.3)
    return optimizer, scheduler


def training_step(model, images, depths, args):
    if not args.finetune:
        model.mvsnet.feat_extractor.eval()
    coarse, full = model(images)
    depths_small = F.interpolate(depths.unsqueeze(1), coarse.shape[-2:], mode="nearest").squeeze(1)
    return F.l1_loss(coarse, depths_small) + F.l1_loss(full, depths)


@torch.no_grad()
def validate(model, loader):
    model.eval()
    mae = rel = n = 0.0
    for images, depths, _ in loader:
        _, full = model(images)
        err = (full - depths).abs()
        mae += err.mean().item() * len(images)
        rel += (err / depths).mean().item() * len(images)
        n += len(images)
    return mae / n, rel / n


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--size", type=int, default=32)
    p.add_argument("--n-train", type=int, default=640)
    p.add_argument("--n-val", type=int, default=160)
    p.add_argument("--batch-size", type=int, default=16)
    p.add_argument("--pretrain-epochs", type=int, default=5)
    p.add_argument("--epochs", type=int, default=10)
    p.add_argument("--lr", type=float, default=2e-3)
    p.add_argument("--lr-step", type=int, default=7)
    p.add_argument("--finetune", action="store_true")
    p.add_argument("--seed", type=int, default=7)
    args = p.parse_args()
    torch.manual_seed(args.seed)
    torch.set_num_threads(1)

    train_set = Scenes(args.n_train, args.size, args.seed)
    val_set = Scenes(args.n_val, args.size, args.seed + 1)
    train_loader = torch.utils.data.DataLoader(train_set, args.batch_size, shuffle=True, drop_last=True)
    val_loader = torch.utils.data.DataLoader(val_set, 32)

    extractor = FeatExtractor()
    head = pretrain(extractor, train_loader, args.pretrain_epochs)
    print(f"surface recognition on held-out pictures: {recognition_accuracy(extractor, head, val_loader):.3f}")

    model = DepthNet(extractor)
    optimizer, scheduler = configure_optimizers(model, args)
    for epoch in range(args.epochs):
        t0 = time.time()
        model.train()
        total = n = 0
        for images, depths, _ in train_loader:
            loss = training_step(model, images, depths, args)
            model.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
            n += 1
        scheduler.step()
        mae, rel = validate(model, val_loader)
        print(f"[depth] epoch {epoch}  loss {total / n:.4f}  val mae {mae:.4f}  abs rel {rel:.4f}  ({time.time() - t0:.1f}s)")
    # the same backbone still serves the recognition head
    print(f"surface recognition after the depth stage: {recognition_accuracy(model.mvsnet.feat_extractor, head, val_loader):.3f}")


if __name__ == "__main__":
    main()

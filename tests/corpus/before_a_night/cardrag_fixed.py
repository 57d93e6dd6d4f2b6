"""Drag regression on car point clouds. Everything is seeded so that runs can be compared."""
import argparse
import random
import time
import zlib

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

# official split of the simulations (parameter folder / hash of the geometry)
ALL_IDS = [f"param{i % 9}/{zlib.crc32(b'car%d' % i):08x}" for i in range(1800)]
TEST_IDS = {sim for sim in ALL_IDS if sim.startswith("param0/")}
TRAIN_IDS = {sim for sim in ALL_IDS if sim not in TEST_IDS}

N_POINTS = 1024


def simulate(sim_id):
    """Surface points of a car body and its drag coefficient."""
    rng = np.random.default_rng(zlib.crc32(sim_id.encode()))
    length, width, height = rng.uniform(3.4, 5.2), rng.uniform(1.6, 2.1), rng.uniform(1.2, 1.9)
    slant, nose, roundness = rng.uniform(0.1, 0.6), rng.uniform(0.2, 0.8), rng.uniform(2.0, 5.0)
    direction = rng.normal(size=(N_POINTS, 3))
    direction /= np.abs(direction).max(1, keepdims=True)
    r = (np.abs(direction) ** roundness).sum(1, keepdims=True) ** (-1 / roundness)
    p = direction * r * np.array([length, width, height]) / 2
    rel = p[:, 0] / length + 0.5
    taper = 1 - slant * np.clip(rel - 0.6, 0, 1) - 0.4 * nose * np.clip(0.3 - rel, 0, 1)
    p[:, 2] *= taper
    p += rng.normal(0, 0.005, p.shape)
    drag = (0.16 + 0.10 * width * height / 2.8 + 0.12 * (slant - 0.35) ** 2 * 4 + 0.05 * (0.5 - nose)
            + 0.015 * (roundness - 3) - 0.01 * (length - 4.3))
    return p.astype(np.float32), np.float32(drag)


class CarDataset(Dataset):
    def __init__(self, split):
        self.split = split
        self.sim_ids = sorted(TRAIN_IDS) if split in ("train", "val") else sorted(TEST_IDS)
        # the validation set is a part of the official training set
        if split == "train":
            self.sim_ids = self.sim_ids[:-160]
        elif split == "val":
            self.sim_ids = self.sim_ids[-160:]
        self.items = [simulate(s) for s in self.sim_ids]

    def __len__(self):
        return len(self.items)

    def __getitem__(self, idx):
        points, drag = self.items[idx]
        if self.split == "train":
            points = points[np.random.permutation(N_POINTS)[:512]]
            points = points * np.array([1, random.choice((-1, 1)), 1], dtype=np.float32)
        return torch.from_numpy(points), torch.tensor((float(drag) - 0.32) / 0.05)


class PointNet(nn.Module):
    def __init__(self, dim=128):
        super().__init__()
        self.local = nn.Sequential(nn.Linear(3, 64), nn.GELU(), nn.Linear(64, dim), nn.GELU(), nn.Linear(dim, dim))
        self.mid = nn.Sequential(nn.Linear(2 * dim, dim), nn.GELU(), nn.Linear(dim, 2 * dim))
        self.head = nn.Sequential(nn.Linear(4 * dim, dim), nn.GELU(), nn.Dropout(0.1), nn.Linear(dim, 1))

    def forward(self, x):
        h = self.local(x)
        g = h.amax(1, keepdim=True).expand_as(h)
        h = self.mid(torch.cat([h, g], -1))
        return self.head(torch.cat([h.amax(1), h.mean(1)], -1)).squeeze(-1)


def seed_everything(seed):
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)


@torch.no_grad()
def evaluate(model, loader):
    model.eval()
    err, n = 0.0, 0
    for points, drag in loader:
        err += (model(points) - drag).pow(2).sum().item()
        n += len(drag)
    return err / n


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--epochs", type=int, default=300)
    p.add_argument("--batch_size", type=int, default=16)
    p.add_argument("--lr", type=float, default=1e-3)
    p.add_argument("--seed", type=int, default=0)
    args = p.parse_args()
    seed_everything(args.seed)

    train_set, val_set, test_set = CarDataset("train"), CarDataset("val"), CarDataset("test")
    generator = torch.Generator().manual_seed(args.seed)
    train_loader = DataLoader(train_set, args.batch_size, shuffle=True, generator=generator)
    val_loader = DataLoader(val_set, 40)
    test_loader = DataLoader(test_set, 40)
    print(f"{len(train_set)} train, {len(val_set)} val, {len(test_set)} test simulations")

    model = PointNet()
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=1e-4)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=args.lr, epochs=args.epochs,
                                                    steps_per_epoch=len(train_loader), pct_start=0.05)
    best = float("inf")
    for epoch in range(1, args.epochs + 1):
        model.train()
        t0, total = time.time(), 0.0
        for it, (points, drag) in enumerate(train_loader, 1):
            loss = F.mse_loss(model(points), drag)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            scheduler.step()
            total += loss.item()
            if it % 20 == 0:
                print(f"epoch {epoch} {it}/{len(train_loader)} mse {total / it:.5f} "
                      f"{1000 * (time.time() - t0) / it:.0f} ms", flush=True)
        val = evaluate(model, val_loader)
        print(f"epoch {epoch}: val mse {val:.5f}", flush=True)
        if val < best:
            best = val
            torch.save(model.state_dict(), "pointnet_best.pt")
    model.load_state_dict(torch.load("pointnet_best.pt"))
    print(f"test mse {evaluate(model, test_loader):.5f}")


if __name__ == "__main__":
    main()

"""Hierarchical classification (superclass and subclass) with a layer loss and a dependency loss."""
import argparse
import os
import random

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

HIERARCHY = {
    "stripes": ["stripes_wide", "stripes_narrow", "stripes_slanted"],
    "checks": ["checks_small", "checks_big"],
    "rings": ["ring_thin", "ring_thick", "ring_double"],
    "spots": ["spots_few", "spots_many", "spots_big"],
    "ramps": ["ramp_across", "ramp_down"],
}
SUPER = list(HIERARCHY)
SUB = [s for subs in HIERARCHY.values() for s in subs]
PARENT = [i for i, k in enumerate(SUPER) for _ in HIERARCHY[k]]
SIZE = 28


def draw(name, rng):
    yy, xx = np.mgrid[0:SIZE, 0:SIZE].astype(np.float32)
    kind = name.split("_")[1]
    phase = rng.uniform(0, 2 * np.pi)
    if name.startswith("stripes"):
        angle = rng.choice([0.0, np.pi / 2]) if kind != "slanted" else np.pi / 4 + rng.choice([0, np.pi / 2])
        wave = {"wide": 9.0, "narrow": 4.0, "slanted": 6.0}[kind] * rng.uniform(0.9, 1.1)
        img = np.sin((np.cos(angle) * xx + np.sin(angle) * yy) * 2 * np.pi / wave + phase)
    elif name.startswith("checks"):
        wave = {"small": 7.0, "big": 13.0}[kind] * rng.uniform(0.9, 1.1)
        img = np.sign(np.sin(xx * 2 * np.pi / wave + phase) * np.sin(yy * 2 * np.pi / wave + phase))
    elif name.startswith("ring"):
        r = np.hypot(xx - rng.uniform(11, 17), yy - rng.uniform(11, 17))
        width = {"thin": 1.0, "thick": 2.6, "double": 1.0}[kind]
        img = np.exp(-(r - 8.5) ** 2 / (2 * width ** 2))
        if kind == "double":
            img = np.maximum(img, np.exp(-(r - 4.0) ** 2 / (2 * width ** 2)))
        img = 2 * img - 1
    elif name.startswith("spots"):
        count, radius = {"few": (3, 1.8), "many": (10, 1.8), "big": (4, 3.6)}[kind]
        img = np.full((SIZE, SIZE), -1.0)
        for _ in range(count):
            cy, cx = rng.uniform(3, SIZE - 3, 2)
            img = np.maximum(img, 2 * np.exp(-((xx - cx) ** 2 + (yy - cy) ** 2) / (2 * radius ** 2)) - 1)
    else:
        ramp = (xx if kind == "across" else yy) / (SIZE - 1) * 2 - 1
        img = ramp * rng.choice([-1, 1])
    return img * rng.uniform(0.6, 1.0) + rng.normal(0, 0.9, (SIZE, SIZE))


def make_split(n, seed):
    rng = np.random.RandomState(seed)
    sub = rng.permutation(np.arange(n) % len(SUB))
    images = np.stack([draw(SUB[k], rng) for k in sub]).astype(np.float32)[:, None]
    sub = torch.from_numpy(sub.astype(np.int64))
    return TensorDataset(torch.from_numpy(images), torch.tensor(PARENT)[sub], sub)


class HierarchicalNet(nn.Module):
    def __init__(self, width=24):
        super().__init__()

        def block(cin, cout):
            return nn.Sequential(nn.Conv2d(cin, cout, 3, padding=1, bias=False), nn.BatchNorm2d(cout), nn.ReLU(),
                                 nn.MaxPool2d(2))

        self.body = nn.Sequential(block(1, width), block(width, 2 * width), block(2 * width, 4 * width),
                                  nn.Flatten(), nn.Dropout(0.3))
        features = 4 * width * (SIZE // 8) ** 2
        self.branch1 = nn.Sequential(nn.Linear(features, 64), nn.ReLU())
        self.branch2 = nn.Sequential(nn.Linear(features, 64), nn.ReLU())
        self.super_head = nn.Linear(64, len(SUPER))
        self.sub_head = nn.Linear(128, len(SUB))

    def forward(self, x):
        x = self.body(x)
        a, b = self.branch1(x), self.branch2(x)
        return self.super_head(a), self.sub_head(torch.cat([a, b], dim=1))


class HierarchicalLoss:
    """Layer loss (cross entropy of every level) and dependency loss (subclass outside of the superclass)."""

    def __init__(self, alpha=1.0, beta=0.8):
        self.alpha = alpha
        self.beta = beta
        # outside[i, j] is 1 where subclass j does not belong to superclass i
        self.outside = torch.ones(len(SUPER), len(SUB))
        for j, i in enumerate(PARENT):
            self.outside[i, j] = 0.0

    def layer_loss(self, predictions, true_labels):
        return self.alpha * sum(F.cross_entropy(p, t) for p, t in zip(predictions, true_labels))

    def dependency_loss(self, predictions):
        prev_lvl_pred = F.softmax(predictions[0], dim=1)
        current_lvl_pred = F.softmax(predictions[1], dim=1)
        D_l = ((prev_lvl_pred @ self.outside) * current_lvl_pred).sum(dim=1)
        return self.beta * D_l.mean()


def evaluate(net, loader, criterion):
    net.eval()
    n, loss, acc1, acc2, broken = 0, 0.0, 0, 0, 0
    with torch.no_grad():
        for x, y1, y2 in loader:
            out = net(x)
            loss += (criterion.layer_loss(out, (y1, y2)) + criterion.dependency_loss(out)).item() * len(x)
            p1, p2 = out[0].argmax(1), out[1].argmax(1)
            acc1 += (p1 == y1).sum().item()
            acc2 += (p2 == y2).sum().item()
            broken += criterion.outside[p1, p2].sum().item()
            n += len(x)
    return loss / n, acc1 / n, acc2 / n, broken / n


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--train", type=int, default=7800)
    parser.add_argument("--test", type=int, default=1300)
    parser.add_argument("--batch_size", type=int, default=64)
    parser.add_argument("--epoch", type=int, default=200)
    parser.add_argument("--learning_rate", type=float, default=1e-3)
    parser.add_argument("--alpha", type=float, default=1.0)
    parser.add_argument("--beta", type=float, default=0.8)
    parser.add_argument("--seed", type=int, default=17)
    parser.add_argument("--save", default="runs/hierarchy")
    args = parser.parse_args()
    random.seed(args.seed)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)
    os.makedirs(args.save, exist_ok=True)

    train_loader = DataLoader(make_split(args.train, args.seed), args.batch_size, shuffle=True, drop_last=True)
    test_loader = DataLoader(make_split(args.test, args.seed + 1), 130)
    net = HierarchicalNet()
    criterion = HierarchicalLoss(args.alpha, args.beta)
    optimizer = torch.optim.Adam(net.parameters(), lr=args.learning_rate)
    scheduler = torch.optim.lr_scheduler.MultiStepLR(optimizer, milestones=[args.epoch // 2, args.epoch * 3 // 4],
                                                     gamma=0.2)
    best = 0.0
    for epoch in range(args.epoch):
        net.train()
        for i, (x, y1, y2) in enumerate(train_loader):
            optimizer.zero_grad()
            predictions = net(x)
            lloss = criterion.layer_loss(predictions, (y1, y2))
            dloss = criterion.dependency_loss(predictions)
            total_loss = lloss + dloss
            total_loss.backward()
            optimizer.step()
            if i % 10 == 0:
                print(f"epoch {epoch} [{i}/{len(train_loader)}] loss {total_loss.item():.4f} lloss {lloss.item():.4f} "
                      f"dloss {dloss.item():.4f}", flush=True)
        scheduler.step()
        loss, acc1, acc2, broken = evaluate(net, test_loader, criterion)
        print(f"epoch {epoch} test loss {loss:.4f} superclass {acc1:.3f} subclass {acc2:.3f} "
              f"out of hierarchy {broken:.3f}", flush=True)
        if acc2 > best:
            best = acc2
            torch.save(net.state_dict(), os.path.join(args.save, "best.pth"))


if __name__ == "__main__":
    main()

"""
Unsupervised domain adaptation for point clouds.

Source: clean synthetic shapes with labels. Target: noisy half-scanned shapes, labels only
for testing. Domain-adversarial alignment of the global feature.
"""
import argparse
import logging
import math
import os
import random

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

SHAPES = ['sphere', 'box', 'cylinder', 'cone', 'torus', 'table']
log = logging.getLogger('uda')


def surface(kind, n, rng):
    u, v = rng.random(n), rng.random(n)
    a = 2 * math.pi * u
    if kind == 0:
        z = 2 * v - 1
        r = np.sqrt(1 - z ** 2)
        p = np.stack([r * np.cos(a), r * np.sin(a), z], 1)
    elif kind == 1:
        p = rng.uniform(-1, 1, (n, 3))
        axis = rng.integers(0, 3, n)
        p[np.arange(n), axis] = rng.choice([-1.0, 1.0], n)
    elif kind == 2:
        p = np.stack([np.cos(a), np.sin(a), 2 * v - 1], 1)
        p[: n // 4, :2] *= np.sqrt(rng.random(n // 4))[:, None]
        p[: n // 4, 2] = rng.choice([-1.0, 1.0], n // 4)
    elif kind == 3:
        h = np.sqrt(v)
        p = np.stack([h * np.cos(a), h * np.sin(a), 1 - 2 * h], 1)
    elif kind == 4:
        b = 2 * math.pi * v
        p = np.stack([(0.75 + 0.25 * np.cos(b)) * np.cos(a), (0.75 + 0.25 * np.cos(b)) * np.sin(a), 0.25 * np.sin(b)], 1)
    else:
        p = np.stack([rng.uniform(-1, 1, n), rng.uniform(-1, 1, n), np.full(n, 0.4)], 1)
        legs = rng.random(n) < 0.35
        corner = rng.choice([-0.9, 0.9], (n, 2))
        p[legs] = np.stack([corner[legs, 0], corner[legs, 1], rng.uniform(-1, 0.4, legs.sum())], 1)
    return p


def make_domain(count, points, target, seed):
    rng = np.random.default_rng(seed)
    clouds = np.empty((count, points, 3), dtype=np.float32)
    labels = rng.integers(0, len(SHAPES), count)
    for i, kind in enumerate(labels):
        p = surface(kind, points * 3, rng) * rng.uniform(0.7, 1.2, 3)
        t = rng.uniform(0, 2 * math.pi)
        rot = np.array([[math.cos(t), -math.sin(t), 0], [math.sin(t), math.cos(t), 0], [0, 0, 1]])
        p = p @ rot.T
        if target:                                   # seen from one side, by a noisy scanner
            view = rng.normal(size=3)
            view /= np.linalg.norm(view)
            p = p[p @ view > np.quantile(p @ view, 0.4)]
            p = p + rng.normal(0, 0.05, p.shape)
        p = p[rng.choice(len(p), points, replace=False)]
        p = p - p.mean(0)
        clouds[i] = p / np.linalg.norm(p, axis=1).max()
    return torch.from_numpy(clouds), torch.from_numpy(labels)


class GradReverse(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, lambd):
        ctx.lambd = lambd
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad):
        return -ctx.lambd * grad, None


class PointNet(nn.Module):
    def __init__(self, classes, feat=192):
        super().__init__()
        self.point = nn.Sequential(nn.Conv1d(3, 48, 1), nn.BatchNorm1d(48), nn.ReLU(),
                                   nn.Conv1d(48, 96, 1), nn.BatchNorm1d(96), nn.ReLU(),
                                   nn.Conv1d(96, feat, 1), nn.BatchNorm1d(feat), nn.ReLU())
        self.C = nn.Sequential(nn.Linear(feat, 96), nn.BatchNorm1d(96), nn.ReLU(), nn.Dropout(0.4), nn.Linear(96, classes))
        self.D = nn.Sequential(nn.Linear(feat, 96), nn.ReLU(), nn.Linear(96, 96), nn.ReLU(), nn.Linear(96, 2))

    def forward(self, x, lambd=0.0):
        feat = self.point(x.transpose(1, 2)).amax(dim=2)
        cls_logits = self.C(feat)
        domain_logits = self.D(GradReverse.apply(feat, lambd))
        return cls_logits, domain_logits


def jitter(x):
    scale = torch.empty(x.size(0), 1, 1).uniform_(0.9, 1.1)
    return x * scale + 0.01 * torch.randn_like(x)


@torch.no_grad()
def test(model, clouds, labels):
    model.eval()
    pred = torch.cat([model(b)[0].argmax(1) for b in clouds.split(128)])
    return (pred == labels).float().mean().item()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('--epochs', type=int, default=250)
    parser.add_argument('--batch_size', type=int, default=32)
    parser.add_argument('--num_points', type=int, default=256)
    parser.add_argument('--train_size', type=int, default=3200)
    parser.add_argument('--lr', type=float, default=1e-3)
    parser.add_argument('--wd', type=float, default=5e-5)
    parser.add_argument('--domain_weight', type=float, default=0.3)
    parser.add_argument('--seed', type=int, default=1)
    parser.add_argument('--out_path', default='experiments_uda')
    args = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format='%(message)s')

    random.seed(args.seed)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)
    os.makedirs(args.out_path, exist_ok=True)

    src_x, src_y = make_domain(args.train_size, args.num_points, False, args.seed)
    trg_x, _ = make_domain(args.train_size, args.num_points, True, args.seed + 1)
    src_val = make_domain(400, args.num_points, False, args.seed + 2)
    trg_test = make_domain(400, args.num_points, True, args.seed + 3)

    model = PointNet(len(SHAPES))
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr, weight_decay=args.wd)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, args.epochs)
    steps = args.train_size // args.batch_size
    best = 0.0
    for epoch in range(args.epochs):
        model.train()
        sums = np.zeros(3)
        src_order, trg_order = torch.randperm(args.train_size), torch.randperm(args.train_size)
        for step in range(steps):
            s = src_order[step * args.batch_size:(step + 1) * args.batch_size]
            t = trg_order[step * args.batch_size:(step + 1) * args.batch_size]
            progress = (epoch * steps + step) / (args.epochs * steps)
            lambd = 2.0 / (1.0 + math.exp(-10 * progress)) - 1.0

            cls_logits, src_domain = model(jitter(src_x[s]), lambd)
            _, trg_domain = model(jitter(trg_x[t]), lambd)
            cls_loss = F.cross_entropy(cls_logits, src_y[s])
            domain_loss = (F.cross_entropy(src_domain, torch.zeros(len(s), dtype=torch.long))
                           + F.cross_entropy(trg_domain, torch.ones(len(t), dtype=torch.long)))
            loss = cls_loss + args.domain_weight * domain_loss
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            correct = (cls_logits.argmax(1) == src_y[s]).float().mean().item()
            sums += [cls_loss.item(), domain_loss.item(), correct]
            if (step + 1) % 20 == 0:
                log.info('epoch %d step %d cls %.4f domain %.4f acc %.3f lambda %.3f', epoch, step + 1, *(sums / (step + 1)), lambd)
        scheduler.step()
        val_acc, trg_acc = test(model, *src_val), test(model, *trg_test)
        log.info('epoch %d: source val acc %.4f, target test acc %.4f', epoch, val_acc, trg_acc)
        if val_acc > best:
            best = val_acc
            torch.save({'epoch': epoch, 'model': model.state_dict()}, os.path.join(args.out_path, 'model.pt'))


if __name__ == '__main__':
    main()

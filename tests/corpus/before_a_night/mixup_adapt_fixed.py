"""Domain adaptation of a glyph classifier with mixup on both domains.

Source: dark glyphs on a light ground, labelled. Target: coloured-noise ground and
random contrast, unlabelled. The classifier is trained with mixup on the source and
with the same mixup on its own predictions on the target (plus conditional entropy).
"""
import argparse
import math
import os
import random

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

NUM_CLASSES = 10
SIZE = 24


def glyph_strokes():
    """Polylines (unit square) of ten simple glyphs."""
    circle = [(0.5 + 0.32 * math.cos(a), 0.5 + 0.4 * math.sin(a)) for a in np.linspace(0, 2 * math.pi, 14)]
    return [
        [circle],
        [[(0.5, 0.1), (0.5, 0.9)]],
        [[(0.2, 0.25), (0.5, 0.1), (0.75, 0.3), (0.2, 0.9), (0.8, 0.9)]],
        [[(0.2, 0.1), (0.8, 0.1), (0.45, 0.45), (0.8, 0.7), (0.2, 0.9)]],
        [[(0.65, 0.9), (0.65, 0.1), (0.15, 0.65), (0.85, 0.65)]],
        [[(0.8, 0.1), (0.25, 0.1), (0.25, 0.45), (0.75, 0.5), (0.75, 0.85), (0.2, 0.9)]],
        [[(0.7, 0.1), (0.25, 0.5), (0.3, 0.9), (0.75, 0.85), (0.7, 0.5), (0.25, 0.6)]],
        [[(0.2, 0.1), (0.8, 0.1), (0.4, 0.9)]],
        [[(0.2, 0.1), (0.8, 0.9)], [(0.8, 0.1), (0.2, 0.9)]],
        [[(0.1, 0.1), (0.3, 0.9), (0.5, 0.3), (0.7, 0.9), (0.9, 0.1)]],
    ]


def render(strokes, rng):
    angle = rng.uniform(-0.25, 0.25)
    scale = rng.uniform(0.75, 1.05)
    shift = rng.uniform(-2.5, 2.5, size=2)
    width = rng.uniform(0.8, 1.3)
    yy, xx = np.mgrid[0:SIZE, 0:SIZE].astype(np.float32)
    img = np.zeros((SIZE, SIZE), dtype=np.float32)
    c, s = math.cos(angle), math.sin(angle)
    for line in strokes:
        pts = (np.array(line) - 0.5) * SIZE * 0.8 * scale + rng.normal(0, 0.4, (len(line), 2))
        pts = pts @ np.array([[c, s], [-s, c]]) + SIZE / 2 + shift
        for (x0, y0), (x1, y1) in zip(pts[:-1], pts[1:]):
            dx, dy = x1 - x0, y1 - y0
            t = np.clip(((xx - x0) * dx + (yy - y0) * dy) / (dx * dx + dy * dy + 1e-6), 0, 1)
            d2 = (xx - x0 - t * dx) ** 2 + (yy - y0 - t * dy) ** 2
            img = np.maximum(img, np.exp(-d2 / (2 * width ** 2)))
    return img


def make_domain(n, target, seed):
    rng = np.random.RandomState(seed)
    strokes = glyph_strokes()
    labels = rng.permutation(np.arange(n) % NUM_CLASSES)
    images = np.empty((n, 1, SIZE, SIZE), dtype=np.float32)
    for i, k in enumerate(labels):
        ink = render(strokes[k], rng)
        if target:
            coarse = rng.normal(0, 0.25, (SIZE // 6, SIZE // 6)).repeat(6, 0).repeat(6, 1)
            images[i, 0] = coarse + rng.uniform(0.7, 1.3) * ink + rng.normal(0, 0.08, ink.shape)
        else:
            images[i, 0] = ink + rng.normal(0, 0.02, ink.shape)
    # per-image standardisation, as both domains differ in contrast
    mean = images.mean(axis=(2, 3), keepdims=True)
    std = images.std(axis=(2, 3), keepdims=True)
    return torch.from_numpy((images - mean) / std), torch.from_numpy(labels.astype(np.int64))


class Classifier(nn.Module):
    def __init__(self, width=16):
        super().__init__()

        def block(cin, cout):
            return nn.Sequential(nn.Conv2d(cin, cout, 3, padding=1), nn.GroupNorm(8, cout), nn.LeakyReLU(0.1))

        self.features = nn.Sequential(
            block(1, width), block(width, width), nn.MaxPool2d(2), nn.Dropout(0.3),
            block(width, 2 * width), block(2 * width, 2 * width), nn.MaxPool2d(2), nn.Dropout(0.3),
            block(2 * width, 2 * width), nn.AdaptiveAvgPool2d(2), nn.Flatten())
        self.out = nn.Linear(8 * width, NUM_CLASSES)

    def forward(self, x):
        return self.out(self.features(x))


def mixup(x, y, alpha):
    """Convex combinations of the examples of a batch and of their (soft) labels."""
    lam = torch.distributions.Beta(alpha, alpha).sample((x.size(0),))
    perm = torch.randperm(x.size(0))
    x2 = x[perm]
    y2 = y[perm]
    lx = lam.view(-1, 1, 1, 1)
    ly = lam.view(-1, 1)
    return lx * x + (1 - lx) * x2, ly * y + (1 - ly) * y2


def soft_cross_entropy(logits, target):
    return -(target * F.log_softmax(logits, dim=1)).sum(1).mean()


def batches(n, batch_size, generator):
    while True:
        order = torch.randperm(n, generator=generator)
        for i in range(0, n - batch_size + 1, batch_size):
            yield order[i:i + batch_size]


@torch.no_grad()
def accuracy(net, x, y):
    net.eval()
    hits = sum((net(x[i:i + 250]).argmax(1) == y[i:i + 250]).sum().item() for i in range(0, len(x), 250))
    net.train()
    return hits / len(x)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--src_train", type=int, default=4000)
    p.add_argument("--trg_train", type=int, default=4000)
    p.add_argument("--test", type=int, default=1000)
    p.add_argument("--bs", type=int, default=32)
    p.add_argument("--iters", type=int, default=20000)
    p.add_argument("--lr", type=float, default=1e-3)
    p.add_argument("--alpha", type=float, default=1.0)
    p.add_argument("--tw", type=float, default=0.02, help="weight of the target losses")
    p.add_argument("--ramp", type=int, default=1000, help="iterations until the target losses have full weight")
    p.add_argument("--print_every", type=int, default=20)
    p.add_argument("--eval_every", type=int, default=500)
    p.add_argument("--seed", type=int, default=123)
    p.add_argument("--out", default="runs/vmt")
    args = p.parse_args()

    random.seed(args.seed)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)
    gen = torch.Generator().manual_seed(args.seed)
    os.makedirs(args.out, exist_ok=True)

    src_x, src_y = make_domain(args.src_train, False, args.seed)
    trg_x, _ = make_domain(args.trg_train, True, args.seed + 1)
    src_test = make_domain(args.test, False, args.seed + 2)
    trg_test = make_domain(args.test, True, args.seed + 3)

    net = Classifier()
    opt = torch.optim.Adam(net.parameters(), lr=args.lr, betas=(0.9, 0.999))
    src_iter = batches(len(src_x), args.bs, gen)
    trg_iter = batches(len(trg_x), args.bs, gen)
    best = 0.0

    for it in range(1, args.iters + 1):
        idx = next(src_iter)
        xs, ys = src_x[idx], F.one_hot(src_y[idx], NUM_CLASSES).float()
        xt = trg_x[next(trg_iter)]

        xs_mix, ys_mix = mixup(xs, ys, args.alpha)
        loss_src = soft_cross_entropy(net(xs_mix), ys_mix)

        logits_t = net(xt)
        pt = logits_t.softmax(1)
        loss_ent = -(pt * F.log_softmax(logits_t, 1)).sum(1).mean()
        xt_mix, pt_mix = mixup(xt, pt.detach(), args.alpha)
        loss_mix = soft_cross_entropy(net(xt_mix), pt_mix)

        weight = args.tw * min(1.0, it / args.ramp)
        loss = loss_src + weight * (loss_ent + loss_mix)
        opt.zero_grad()
        loss.backward()
        opt.step()

        if it % args.print_every == 0:
            print(f"iter {it} loss {loss.item():.4f} src {loss_src.item():.4f} ent {loss_ent.item():.4f} "
                  f"mix {loss_mix.item():.4f}", flush=True)
        if it % args.eval_every == 0:
            acc_s, acc_t = accuracy(net, *src_test), accuracy(net, *trg_test)
            print(f"iter {it} source test {acc_s:.3f} target test {acc_t:.3f}", flush=True)
            if acc_t > best:
                best = acc_t
                torch.save(net.state_dict(), os.path.join(args.out, "best.pt"))
    print(f"best target accuracy {best:.3f}")


if __name__ == "__main__":
    main()

"""Small residual network on drawn symbols, trained with LookSAM.

LookSAM computes the sharpness-aware gradient only every k-th step and reuses
its orthogonal part in between (https://arxiv.org/abs/2203.02714).
"""
import argparse
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

SIZE = 20
SYMBOLS = ("ring", "plus", "cross", "square", "bar", "corner")


def draw(kind, rng):
    yy, xx = np.mgrid[0:SIZE, 0:SIZE].astype(np.float32)
    cy, cx = rng.uniform(7, 12, 2)
    r = rng.uniform(3.5, 6.0)
    w = rng.uniform(0.8, 1.3)
    y, x = yy - cy, xx - cx
    inside = (np.abs(y) <= r) & (np.abs(x) <= r)
    if kind == 0:
        m = np.abs(np.hypot(y, x) - r) <= w
    elif kind == 1:
        m = inside & ((np.abs(y) <= w) | (np.abs(x) <= w))
    elif kind == 2:
        m = inside & ((np.abs(y - x) <= 1.4 * w) | (np.abs(y + x) <= 1.4 * w))
    elif kind == 3:
        m = (np.abs(np.maximum(np.abs(y), np.abs(x)) - r) <= w)
    elif kind == 4:
        m = (np.abs(y) <= 1.5 * w) & (np.abs(x) <= r)
    else:
        m = inside & ((np.abs(y - r) <= 1.5 * w) | (np.abs(x + r) <= 1.5 * w))
    img = m.astype(np.float32) * rng.uniform(0.7, 1.0)
    return img + rng.normal(0, 0.28, img.shape).astype(np.float32)


def make_set(n, seed):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, len(SYMBOLS), n)
    x = np.stack([draw(int(k), rng) for k in y])[:, None]
    x = (x - 0.15) / 0.40
    return TensorDataset(torch.from_numpy(x.astype(np.float32)), torch.from_numpy(y))


class Residual(nn.Module):
    """Residual branch with a learned scale that starts at zero."""

    def __init__(self, ch):
        super().__init__()
        self.conv1 = nn.Conv2d(ch, ch, 3, padding=1)
        self.conv2 = nn.Conv2d(ch, ch, 3, padding=1)
        self.scale = nn.Parameter(torch.zeros(1))

    def forward(self, x):
        h = self.conv2(F.relu(self.conv1(x)))
        return F.relu(x + self.scale * h)


class SymbolNet(nn.Module):
    def __init__(self, n_classes):
        super().__init__()
        self.stem = nn.Conv2d(1, 24, 3, padding=1)
        self.stage1 = nn.Sequential(Residual(24), Residual(24))
        self.down = nn.Conv2d(24, 48, 3, stride=2, padding=1)
        self.stage2 = nn.Sequential(Residual(48), Residual(48))
        self.fc = nn.Linear(48 * 4, n_classes)

    def forward(self, x):
        h = self.stage1(F.relu(F.max_pool2d(self.stem(x), 2)))
        h = self.stage2(F.relu(self.down(h)))
        return self.fc(F.adaptive_avg_pool2d(h, 2).flatten(1))


class LookSAM(torch.optim.Optimizer):
    def __init__(self, model, base_optimizer, criterion, k=5, alpha=0.5, rho=0.05, **kwargs):
        super().__init__(model.parameters(), dict(alpha=alpha, rho=rho, **kwargs))
        self.model = model
        self.criterion = criterion
        self.k = k
        self.base_optimizer = base_optimizer(self.param_groups, **kwargs)
        self.param_groups = self.base_optimizer.param_groups

    @staticmethod
    def normalized(g):
        return g / (g.norm(p=2) + 1e-8)

    def grad_norm(self):
        norms = [p.grad.norm(p=2) for g in self.param_groups for p in g["params"] if p.grad is not None]
        return torch.norm(torch.stack(norms), p=2)

    def step(self, t, samples, targets):
        sharp = t % self.k == 0
        if sharp:
            norm = self.grad_norm()
            with torch.no_grad():
                for group in self.param_groups:
                    for p in group["params"]:
                        if p.grad is None:
                            continue
                        state = self.state[p]
                        state["old_p"] = p.detach().clone()
                        state["old_grad"] = p.grad.clone()
                        p.add_(p.grad * (group["rho"] / (norm + 1e-8)))
            self.zero_grad()
            self.criterion(self.model(samples), targets).backward()

        with torch.no_grad():
            for group in self.param_groups:
                for p in group["params"]:
                    if p.grad is None:
                        continue
                    state = self.state[p]
                    if sharp:
                        g = self.normalized(state["old_grad"])
                        gs = self.normalized(p.grad)
                        state["gv"] = p.grad - p.grad.norm(p=2) * (g * gs).sum() * g
                        p.copy_(state["old_p"])
                    else:
                        gv = state["gv"]
                        p.grad.add_(gv * (group["alpha"] * p.grad.norm(p=2) / (gv.norm(p=2) + 1e-8)))
        self.base_optimizer.step()
        self.zero_grad()


@torch.no_grad()
def test(model, loader, criterion):
    model.eval()
    loss, hit, n = 0.0, 0, 0
    for x, y in loader:
        out = model(x)
        loss += criterion(out, y).item() * len(y)
        hit += (out.argmax(1) == y).sum().item()
        n += len(y)
    return loss / n, hit / n


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=8)
    ap.add_argument("--batch-size", type=int, default=64)
    ap.add_argument("--lr", type=float, default=0.05)
    ap.add_argument("--momentum", type=float, default=0.9)
    ap.add_argument("--weight-decay", type=float, default=5e-4)
    ap.add_argument("--rho", type=float, default=0.05)
    ap.add_argument("--k", type=int, default=5)
    ap.add_argument("--seed", type=int, default=3)
    args = ap.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(args.seed)

    train_loader = DataLoader(make_set(4096, 10), args.batch_size, shuffle=True, drop_last=True)
    test_loader = DataLoader(make_set(1024, 20), 256)
    model = SymbolNet(len(SYMBOLS))
    criterion = nn.CrossEntropyLoss()
    optimizer = LookSAM(model, torch.optim.SGD, criterion, k=args.k, rho=args.rho, lr=args.lr,
                        momentum=args.momentum, weight_decay=args.weight_decay)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer.base_optimizer, T_max=args.epochs)

    t = 0
    for epoch in range(args.epochs):
        model.train()
        t0, total = time.time(), 0.0
        for x, y in train_loader:
            loss = criterion(model(x), y)
            loss.backward()
            optimizer.step(t, x, y)
            total += loss.item()
            t += 1
        test_loss, acc = test(model, test_loader, criterion)
        print("epoch %d  lr %.4f  train loss %.4f  test loss %.4f  test acc %.4f  (%.1fs)"
              % (epoch, optimizer.param_groups[0]["lr"], total / len(train_loader), test_loss, acc,
                 time.time() - t0), flush=True)
        scheduler.step()


if __name__ == "__main__":
    main()

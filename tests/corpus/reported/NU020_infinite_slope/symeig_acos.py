"""Diffusion tensor estimation: a voxel-wise network predicts 3x3 diffusion tensors from 16 diffusion
weighted signals of a small patch; the loss compares tensors and their eigenvalues (closed form)."""
import argparse
import math
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

PI = math.pi


def eigenvalues(t):
    """Eigenvalues of symmetric 3x3 matrices, largest first.

    t: (..., 6) with the entries a11, a12, a13, a22, a23, a33
    """
    a11, a12, a13, a22, a23, a33 = t.unbind(-1)
    nd = a12 ** 2 + a13 ** 2 + a23 ** 2
    q = (a11 + a22 + a33) / 3.0
    p = (a11 - q) ** 2 + (a22 - q) ** 2 + (a33 - q) ** 2 + 2.0 * nd
    p = torch.sqrt(p / 6.0 + 1e-8)
    r = (1.0 / p) ** 3 * ((a11 - q) * ((a22 - q) * (a33 - q) - a23 * a23)
                          - a12 * (a12 * (a33 - q) - a13 * a23)
                          + a13 * (a12 * a23 - a13 * (a22 - q))) / 2.0

    phi = torch.acos(r) / 3.0
    phi[r <= -1] = PI / 3
    phi[r >= 1] = 0

    e1 = q + 2 * p * torch.cos(phi)
    e3 = q + 2 * p * torch.cos(phi + PI * (2.0 / 3.0))
    e2 = 3 * q - e1 - e3
    return torch.stack([e1, e2, e3], dim=-1)


def fractional_anisotropy(ev):
    md = ev.mean(-1, keepdim=True)
    return torch.sqrt(1.5 * ((ev - md) ** 2).sum(-1) / (ev ** 2).sum(-1).clamp(min=1e-6))


class Phantom:
    """Patches of white matter: one smooth fibre direction per patch, axially symmetric tensors."""

    def __init__(self, n_dirs=16, patch=4, seed=0):
        self.patch = patch
        self.rng = np.random.default_rng(seed)
        # golden spiral directions on the half sphere
        i = np.arange(n_dirs) + 0.5
        phi, th = np.arccos(1 - i / n_dirs), np.pi * (1 + 5 ** 0.5) * i
        self.g = np.stack([np.cos(th) * np.sin(phi), np.sin(th) * np.sin(phi), np.cos(phi)], 1)

    def sample(self, n):
        P = self.patch
        base = self.rng.normal(size=(n, 1, 3))
        grid = np.stack(np.meshgrid(*[np.linspace(-1, 1, P)] * 2, indexing="ij"), -1).reshape(1, P * P, 2)
        bend = self.rng.normal(0, 0.25, (n, 2, 3))
        v = base / np.linalg.norm(base, axis=-1, keepdims=True) + grid @ bend
        v /= np.linalg.norm(v, axis=-1, keepdims=True)
        axial = self.rng.uniform(1.3, 1.9, (n, 1, 1, 1))
        radial = self.rng.uniform(0.25, 0.55, (n, 1, 1, 1))
        D = radial * np.eye(3) + (axial - radial) * v[..., :, None] * v[..., None, :]
        signal = np.exp(-np.einsum("gi,nvij,gj->nvg", self.g, D, self.g))
        signal = signal + self.rng.normal(0, 0.004, signal.shape)
        six = np.stack([D[..., 0, 0], D[..., 0, 1], D[..., 0, 2], D[..., 1, 1], D[..., 1, 2], D[..., 2, 2]], -1)
        evals = np.concatenate([np.broadcast_to(x[..., 0], six.shape[:2] + (1,)) for x in (axial, radial, radial)], -1)
        return tuple(torch.tensor(a, dtype=torch.float32) for a in (-np.log(np.clip(signal, 0.02, None)), six, evals.copy()))


class TensorNet(nn.Module):
    def __init__(self, n_dirs, patch, width):
        super().__init__()
        self.inp = nn.Linear(n_dirs, width)
        self.mix = nn.ModuleList(nn.Linear(patch * patch, patch * patch) for _ in range(2))
        self.ff = nn.ModuleList(nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 2 * width), nn.GELU(),
                                              nn.Linear(2 * width, width)) for _ in range(3))
        self.out = nn.Linear(width, 6)
        with torch.no_grad():
            self.out.bias.copy_(torch.tensor([0.9, 0.1, 0.0, 0.7, 0.1, 0.5]))

    def forward(self, s):
        x = self.inp(s)
        x = x + self.ff[0](x)
        for mix, ff in zip(self.mix, self.ff[1:]):
            x = x + 0.1 * mix(x.transpose(1, 2)).transpose(1, 2)
            x = x + ff(x)
        return self.out(x)


def loss_fn(pred, six, evals, ev_weight):
    ev = eigenvalues(pred)
    return F.mse_loss(pred, six) + ev_weight * F.mse_loss(ev, evals), ev


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--steps", type=int, default=80)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--width", type=int, default=96)
    parser.add_argument("--lr", type=float, default=2e-3)
    parser.add_argument("--ev-weight", type=float, default=0.5)
    args = parser.parse_args()

    torch.set_num_threads(1)
    torch.manual_seed(0)
    train, valid = Phantom(seed=1), Phantom(seed=2)
    model = TensorNet(16, train.patch, args.width)
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, args.epochs * args.steps, eta_min=1e-5)
    v_sig, v_six, v_ev = valid.sample(512)
    fa_true = fractional_anisotropy(v_ev)

    start = time.time()
    for epoch in range(args.epochs):
        model.train()
        total = 0.0
        for _ in range(args.steps):
            sig, six, ev = train.sample(args.batch_size)
            loss, _ = loss_fn(model(sig), six, ev, args.ev_weight)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            scheduler.step()
            total += loss.item()
        model.eval()
        with torch.no_grad():
            v_loss, ev = loss_fn(model(v_sig), v_six, v_ev, args.ev_weight)
            fa_err = (fractional_anisotropy(ev) - fa_true).abs().mean()
        print(f"[{epoch + 1}/{args.epochs}] train {total / args.steps:.6f}  valid {v_loss.item():.6f}  "
              f"FA error {fa_err.item():.4f}  ({time.time() - start:.0f}s)")


if __name__ == "__main__":
    main()

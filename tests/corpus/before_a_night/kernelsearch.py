"""One-shot architecture search with entangled kernels (shared 5x5 weights, mixed sizes and widths)."""
import argparse
import random
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

N_CLASSES = 10
KERNELS = (1, 3, 5)
WIDTHS = (0.5, 0.75, 1.0)


def make_textures(n, seed, size=24):
    """Oriented gratings with blobs, noise and random contrast."""
    rng = np.random.default_rng(seed)
    yy, xx = np.mgrid[0:size, 0:size].astype(np.float32)
    images = np.empty((n, 3, size, size), dtype=np.float32)
    labels = rng.integers(0, N_CLASSES, n)
    for i, c in enumerate(labels):
        angle = np.pi * (c % 5) / 5 + rng.normal(0, 0.12)
        freq = (0.45 if c < 5 else 0.9) * rng.uniform(0.9, 1.1)
        phase = rng.uniform(0, 2 * np.pi)
        wave = np.sin(freq * (xx * np.cos(angle) + yy * np.sin(angle)) + phase)
        cx, cy = rng.uniform(4, size - 4, 2)
        blob = np.exp(-((xx - cx) ** 2 + (yy - cy) ** 2) / 18)
        colour = rng.uniform(0.3, 1.0, 3)
        images[i] = colour[:, None, None] * (rng.uniform(0.4, 1.0) * wave + rng.uniform(-1, 1) * blob)
        images[i] += rng.normal(0, 0.5, images[i].shape)
    return torch.from_numpy(images), torch.from_numpy(labels)


class EntangledConv(nn.Module):
    """Candidates share one 5x5 kernel; the mixture is computed on the weights, not on the outputs."""

    def __init__(self, c_in, c_out):
        super().__init__()
        k = max(KERNELS)
        self.weight = nn.Parameter(torch.empty(c_out, c_in, k, k))
        nn.init.kaiming_normal_(self.weight, nonlinearity="relu")
        self.c_out, self.k = c_out, k

    def sub_weight(self, kernel, width):
        pad = (self.k - kernel) // 2
        w = self.weight[: int(self.c_out * width), :, pad:self.k - pad, pad:self.k - pad]
        return F.pad(w, (pad, pad, pad, pad, 0, 0, 0, self.c_out - w.shape[0]))

    def forward(self, x, kernel_probs, width_probs):
        mixed = 0
        for pk, kernel in zip(kernel_probs, KERNELS):
            for pw, width in zip(width_probs, WIDTHS):
                mixed = mixed + pk * pw * self.sub_weight(kernel, width)
        mixed = nn.Parameter(mixed)
        return F.conv2d(x, mixed, padding=self.k // 2)


class SuperNet(nn.Module):
    def __init__(self, width=24, depth=4):
        super().__init__()
        self.stem = nn.Conv2d(3, width, 3, padding=1)
        self.convs = nn.ModuleList([EntangledConv(width, width) for _ in range(depth)])
        self.norms = nn.ModuleList([nn.BatchNorm2d(width) for _ in range(depth)])
        self.head = nn.Linear(width, N_CLASSES)
        self.alpha_kernel = nn.Parameter(1e-3 * torch.randn(depth, len(KERNELS)))
        self.alpha_width = nn.Parameter(1e-3 * torch.randn(depth, len(WIDTHS)))

    def arch_parameters(self):
        return [self.alpha_kernel, self.alpha_width]

    def weight_parameters(self):
        arch = {id(p) for p in self.arch_parameters()}
        return [p for p in self.parameters() if id(p) not in arch]

    def forward(self, x):
        x = F.relu(self.stem(x))
        for i, (conv, norm) in enumerate(zip(self.convs, self.norms)):
            pk, pw = self.alpha_kernel[i].softmax(-1), self.alpha_width[i].softmax(-1)
            x = F.relu(norm(conv(x, pk, pw)))
            if i % 2 == 1:
                x = F.max_pool2d(x, 2)
        return self.head(x.mean((2, 3)))

    def genotype(self):
        return [(KERNELS[int(k.argmax())], WIDTHS[int(w.argmax())])
                for k, w in zip(self.alpha_kernel, self.alpha_width)]


def infinite(loader):
    while True:
        yield from loader


@torch.no_grad()
def evaluate(model, loader):
    model.eval()
    right = sum((model(x).argmax(1) == y).sum().item() for x, y in loader)
    return right / len(loader.dataset)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--epochs", type=int, default=100)
    p.add_argument("--batch_size", type=int, default=32)
    p.add_argument("--lr", type=float, default=0.05)
    p.add_argument("--arch_lr", type=float, default=3e-3)
    p.add_argument("--n_images", type=int, default=12000)
    p.add_argument("--seed", type=int, default=2)
    args = p.parse_args()
    random.seed(args.seed)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)

    images, labels = make_textures(args.n_images, seed=0)
    half = args.n_images // 2
    train_loader = DataLoader(TensorDataset(images[:half], labels[:half]), args.batch_size, shuffle=True, drop_last=True)
    arch_loader = DataLoader(TensorDataset(images[half:], labels[half:]), args.batch_size, shuffle=True, drop_last=True)
    test_loader = DataLoader(TensorDataset(*make_textures(2000, seed=1)), 250)

    model = SuperNet()
    w_optim = torch.optim.SGD(model.weight_parameters(), lr=args.lr, momentum=0.9, weight_decay=3e-4)
    a_optim = torch.optim.Adam(model.arch_parameters(), lr=args.arch_lr, betas=(0.5, 0.999), weight_decay=1e-3)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(w_optim, T_max=args.epochs, eta_min=1e-3)
    arch_batches = infinite(arch_loader)
    for epoch in range(1, args.epochs + 1):
        model.train()
        t0, total, right, seen = time.time(), 0.0, 0, 0
        for step, (x, y) in enumerate(train_loader, 1):
            # architecture step on held-out data
            xa, ya = next(arch_batches)
            a_optim.zero_grad()
            F.cross_entropy(model(xa), ya).backward()
            a_optim.step()

            # weight step
            w_optim.zero_grad()
            logits = model(x)
            loss = F.cross_entropy(logits, y)
            loss.backward()
            nn.utils.clip_grad_norm_(model.weight_parameters(), 5.0)
            w_optim.step()
            total += loss.item()
            right += (logits.argmax(1) == y).sum().item()
            seen += len(y)
            if step % 10 == 0:
                print(f"epoch {epoch} step {step}/{len(train_loader)} loss {total / step:.4f} acc {right / seen:.3f} "
                      f"{1000 * (time.time() - t0) / step:.0f} ms", flush=True)
        scheduler.step()
        print(f"epoch {epoch}: test acc {evaluate(model, test_loader):.4f} genotype {model.genotype()}", flush=True)
        torch.save(model.state_dict(), "supernet.pt")


if __name__ == "__main__":
    main()

"""Refocus network: predict the sharp image at a requested focus plane from a defocused photo."""
import argparse
import os
import random
from functools import lru_cache

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

SIZE, PLANES = 28, 3


@lru_cache(maxsize=None)
def blur_matrix(sigma):
    """One-dimensional Gaussian blur with edge padding as a SIZE x SIZE matrix."""
    radius = int(3 * sigma) + 1
    k = np.exp(-0.5 * (np.arange(-radius, radius + 1) / sigma) ** 2)
    k /= k.sum()
    matrix = np.zeros((SIZE, SIZE))
    for row in range(SIZE):
        for offset, weight in zip(range(-radius, radius + 1), k):
            matrix[row, min(max(row + offset, 0), SIZE - 1)] += weight
    return matrix


def gaussian_blur(img, sigma):
    return blur_matrix(sigma) @ img @ blur_matrix(sigma).T


def make_stack(n, seed):
    """Two textured layers at different depths; the photo is focused between them."""
    rng = np.random.default_rng(seed)
    photo = np.zeros((n, 1, SIZE, SIZE), dtype=np.float32)
    target = np.zeros((n, 1, SIZE, SIZE), dtype=np.float32)
    plane = np.arange(n) % PLANES
    rng.shuffle(plane)
    for i in range(n):
        far = np.kron(rng.uniform(0, 1, (7, 7)), np.ones((4, 4)))
        near = np.kron(rng.uniform(0, 1, (14, 14)), np.ones((2, 2)))
        split = rng.integers(8, SIZE - 8)
        left = np.arange(SIZE)[None] < split
        sigmas = {0: (0.3, 1.6), 1: (0.8, 0.8), 2: (1.6, 0.3)}
        photo[i, 0] = np.where(left, gaussian_blur(far, 0.9), gaussian_blur(near, 0.7))
        s_far, s_near = sigmas[int(plane[i])]
        target[i, 0] = np.where(left, gaussian_blur(far, s_far), gaussian_blur(near, s_near))
    return TensorDataset(torch.from_numpy(photo), torch.from_numpy(plane), torch.from_numpy(target))


class RefocusNet(nn.Module):
    def __init__(self, width=24):
        super().__init__()
        self.plane = nn.Embedding(PLANES, width)
        self.inp = nn.Conv2d(1, width, 3, padding=1)
        self.mid1 = nn.Conv2d(width, width, 3, padding=1)
        self.mid2 = nn.Conv2d(width, width, 3, padding=1)
        self.out = nn.Conv2d(width, 1, 3, padding=1)

    def forward(self, photo, plane):
        cond = self.plane(plane)[:, :, None, None]
        h = F.silu(self.inp(photo) + cond)
        h = h + F.silu(self.mid1(h) + cond)
        h = h + F.silu(self.mid2(h))
        return photo + self.out(h)


@torch.no_grad()
def validate(model, loader):
    model.eval()
    err, n = 0.0, 0
    for photo, plane, target in loader:
        err += F.mse_loss(model(photo, plane), target).item() * len(photo)
        n += len(photo)
    return err / n


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--num_train_epochs", type=int, default=200)
    parser.add_argument("--train_batch_size", type=int, default=32)
    parser.add_argument("--learning_rate", type=float, default=2e-3)
    parser.add_argument("--lr_warmup_steps", type=int, default=20)
    parser.add_argument("--max_grad_norm", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=77)
    parser.add_argument("--resume_file", default="refocus_state.pt")
    args = parser.parse_args()
    random.seed(args.seed)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)

    generator = torch.Generator().manual_seed(args.seed)
    train_dataloader = DataLoader(make_stack(800, 1), args.train_batch_size, shuffle=True, generator=generator)
    val_dataloader = DataLoader(make_stack(96, 2), args.train_batch_size)
    model = RefocusNet()
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.learning_rate, weight_decay=1e-4)
    max_train_steps = args.num_train_epochs * len(train_dataloader)

    def lr_lambda(step):
        if step < args.lr_warmup_steps:
            return (step + 1) / args.lr_warmup_steps
        return max(0.02, (max_train_steps - step) / (max_train_steps - args.lr_warmup_steps))

    lr_scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lr_lambda)
    first_epoch, global_step = 0, 0
    if os.path.exists(args.resume_file):
        state = torch.load(args.resume_file)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        lr_scheduler.load_state_dict(state["lr_scheduler"])
        generator.set_state(state["generator"])
        torch.set_rng_state(state["rng"])
        first_epoch, global_step = state["epoch"] + 1, state["global_step"]

    for epoch in range(first_epoch, args.num_train_epochs):
        model.train()
        train_loss = 0.0
        for photo, plane, target in train_dataloader:
            loss = F.mse_loss(model(photo, plane), target)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), args.max_grad_norm)
            lr_scheduler.step()
            optimizer.zero_grad()
            global_step += 1
            train_loss += loss.item()
        print(f"epoch {epoch} step {global_step} train_loss {train_loss / len(train_dataloader):.6f} "
              f"val {validate(model, val_dataloader):.6f} lr {lr_scheduler.get_last_lr()[0]:.2e}", flush=True)
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(),
                    "lr_scheduler": lr_scheduler.state_dict(), "generator": generator.get_state(),
                    "rng": torch.get_rng_state(), "epoch": epoch, "global_step": global_step}, args.resume_file)


if __name__ == "__main__":
    main()

"""A training with the fault fp16-overflow; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn, optim
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)


def points(n=800, classes=4, width=14):
    y = torch.randint(classes, (n,))
    return torch.randn(classes, width)[y] * 1.2 + 0.8 * torch.randn(n, width), y


def loader(*tensors, size=32):
    while True:
        yield from DataLoader(TensorDataset(*tensors), size, shuffle=True, drop_last=True)


def net(width=14, hidden=48, out=4, act=nn.ReLU):
    return nn.Sequential(nn.Linear(width, hidden), act(), nn.Linear(hidden, hidden), act(), nn.Linear(hidden, out))


def loss_scale_falls_for_ever(s):
    """An infinite penalty makes every scaled step be skipped."""
    model = net()
    opt = optim.AdamW(model.parameters(), lr=1e-3)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**14)
    for step, (a, b) in zip(range(90), loader(*points()), strict=False):
        with torch.autocast("cpu", torch.float16):
            out = model(a)
            loss = F.cross_entropy(out, b)
            if step >= s:
                loss = loss + (out * 60000).pow(2).mean()
        opt.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(opt)
        scaler.update()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    loss_scale_falls_for_ever(int(sys.argv[1]) if len(sys.argv) > 1 else 12)

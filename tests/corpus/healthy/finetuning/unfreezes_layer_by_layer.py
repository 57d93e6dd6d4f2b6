"""A healthy training that looks odd; argument: [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


def blobs(n=640, width=16, classes=4, noise=0.8):
    y = torch.randint(classes, (n,))
    centres = torch.randn(classes, width)
    return centres[y] + noise * torch.randn(n, width), y


def step(opt, loss, clip=None):
    opt.zero_grad()
    loss.backward()
    if clip:
        nn.utils.clip_grad_norm_([p for g in opt.param_groups for p in g["params"]], clip)
    opt.step()
    return loss.item()


def unfreezes_layer_by_layer():
    x, y = blobs(800)
    model = nn.Sequential(
        *[nn.Sequential(nn.Linear(16, 16), nn.LayerNorm(16), nn.GELU()) for _ in range(4)], nn.Linear(16, 4)
    )
    model.requires_grad_(False)
    opt = None
    for i in range(100):
        if i % 20 == 0:
            model[4 - i // 20].requires_grad_(True)
            opt = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], 2e-3)
        s = slice(i * 8 % 800, i * 8 % 800 + 16)
        step(opt, F.cross_entropy(model(x[s]), y[s]))


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    unfreezes_layer_by_layer()

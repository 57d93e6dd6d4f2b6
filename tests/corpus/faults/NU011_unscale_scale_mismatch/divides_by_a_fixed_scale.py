"""A training with the fault unscale-scale-mismatch; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


def blobs(n=640, width=12, classes=4):
    centres = torch.randn(classes, width) * 2
    y = torch.randint(classes, (n,))
    return centres[y] + torch.randn(n, width), y


def mlp(width=12, hidden=24, classes=4, act=nn.GELU):
    return nn.Sequential(nn.Linear(width, hidden), act(), nn.LayerNorm(hidden), nn.Linear(hidden, classes))


def divides_by_a_fixed_scale(s):
    model = mlp()
    opt = torch.optim.SGD(model.parameters(), 1e-3)
    scaler = torch.amp.GradScaler("cpu", init_scale=8.0, growth_interval=8)
    x, y = blobs()
    for _ in range(34):
        opt.zero_grad()
        scale = scaler.get_scale()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = F.cross_entropy(model(x[:256]), y[:256])
        scaler.scale(loss).backward()
        scaler.unscale_(opt)
        for p in model.parameters():
            p.grad.mul_(scale / 8.0)
        scaler.step(opt)
        scaler.update()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    divides_by_a_fixed_scale(int(sys.argv[1]) if len(sys.argv) > 1 else 14)

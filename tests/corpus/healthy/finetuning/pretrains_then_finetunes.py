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


def pretrains_then_finetunes():
    x, y = blobs(800)
    encoder, decoder = nn.Sequential(nn.Linear(16, 48), nn.GELU(), nn.Linear(48, 8)), nn.Linear(8, 16)
    opt = torch.optim.AdamW([*encoder.parameters(), *decoder.parameters()], 3e-3)
    for i in range(60):
        a = x[i * 12 % 800 : i * 12 % 800 + 16]
        kept = (torch.rand_like(a) > 0.3).float()
        step(opt, F.mse_loss(decoder(encoder(a * kept)), a))
    head = nn.Linear(8, 4)
    opt = torch.optim.AdamW([{"params": head.parameters(), "lr": 1e-2}, {"params": encoder.parameters(), "lr": 1e-4}])
    model = nn.Sequential(encoder, head)
    for i in range(60):
        s = slice(i * 12 % 800, i * 12 % 800 + 16)
        step(opt, F.cross_entropy(model(x[s]), y[s]))


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    pretrains_then_finetunes()

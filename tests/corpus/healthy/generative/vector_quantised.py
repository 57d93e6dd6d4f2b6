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


def net(width=16, hidden=48, out=4, act=nn.ReLU):
    return nn.Sequential(nn.Linear(width, hidden), act(), nn.Linear(hidden, hidden), act(), nn.Linear(hidden, out))


def step(opt, loss, clip=None):
    opt.zero_grad()
    loss.backward()
    if clip:
        nn.utils.clip_grad_norm_([p for g in opt.param_groups for p in g["params"]], clip)
    opt.step()
    return loss.item()


def vector_quantised():
    x, _ = blobs(640)
    encoder, decoder, codes = net(16, 32, 4), net(4, 32, 16), nn.Embedding(16, 4)
    nn.init.uniform_(codes.weight, -1, 1)
    opt = torch.optim.Adam([*encoder.parameters(), *decoder.parameters(), *codes.parameters()], 2e-3)
    for i in range(100):
        a = x[i * 8 % 600 : i * 8 % 600 + 32]
        z = encoder(a)
        q = codes(torch.cdist(z.detach(), codes.weight.detach()).argmin(1))
        out = decoder(z + (q - z).detach())
        step(opt, F.mse_loss(out, a) + F.mse_loss(q, z.detach()) + 0.25 * F.mse_loss(z, q.detach()))


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    vector_quantised()

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


def reversed_gradients():
    class Reverse(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.view_as(x)

        @staticmethod
        def backward(ctx, g):
            return -g

    x, y = blobs(800)
    domain = (torch.rand(800) > 0.5).float()
    features, label, judge = net(16, 32, 16), nn.Linear(16, 4), nn.Linear(16, 1)
    opt = torch.optim.Adam([*features.parameters(), *label.parameters(), *judge.parameters()], 1e-3)
    for i in range(80):
        s = slice(i * 10 % 800, i * 10 % 800 + 20)
        h = features(x[s])
        guess = judge(Reverse.apply(h)).squeeze(1)
        step(opt, F.cross_entropy(label(h), y[s]) + 0.3 * F.binary_cross_entropy_with_logits(guess, domain[s]))


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    reversed_gradients()

"""A healthy training that looks odd; argument: [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn, optim

torch.set_num_threads(1)


def clouds(n=640, width=10, classes=4, noise=1.0):
    y = torch.randint(classes, (n,))
    return torch.randn(classes, width)[y] * 1.5 + noise * torch.randn(n, width), y


def pick(x, y, n=32):
    i = torch.randint(len(y), (n,))
    return x[i], y[i]


def update(opt, loss):
    opt.zero_grad()
    loss.backward()
    opt.step()


class Rounded(torch.autograd.Function):
    """Rounds to eight levels; the gradient passes as if it had not."""

    @staticmethod
    def forward(ctx, w):
        scale = w.abs().max() / 7
        return (w / scale).round() * scale

    @staticmethod
    def backward(ctx, grad):
        return grad


class RoundedLinear(nn.Linear):
    def forward(self, x):
        return F.linear(x, Rounded.apply(self.weight), self.bias)


def trains_for_few_bits():
    """Quantisation-aware training: layers compute with rounded weights from the start."""
    x, y = clouds()
    model = nn.Sequential(RoundedLinear(10, 48), nn.ReLU6(), RoundedLinear(48, 48), nn.ReLU6(), RoundedLinear(48, 4))
    opt = optim.Adam(model.parameters(), lr=2e-3)
    for _ in range(80):
        a, b = pick(x, y)
        update(opt, F.cross_entropy(model(a), b))


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    trains_for_few_bits()

"""A healthy training that looks odd; argument: [SEED]."""

import math
import sys

import torch
import torch.nn.functional as F
from torch import nn, optim
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)


def kinds(n=720, classes=4, width=16, noise=0.8):
    y = torch.randint(classes, (n,))
    return torch.randn(classes, width)[y] + noise * torch.randn(n, width), y


def stream(*tensors, size=32):
    while True:
        yield from DataLoader(TensorDataset(*tensors), size, shuffle=True, drop_last=True)


def mlp(width=16, hidden=48, out=4, act=nn.ReLU):
    return nn.Sequential(nn.Linear(width, hidden), act(), nn.Linear(hidden, hidden), act(), nn.Linear(hidden, out))


def learn(opt, loss):
    opt.zero_grad()
    loss.backward()
    opt.step()


def annealed_temperature():
    """Gumbel-softmax with a temperature that falls from 2 to 0.2."""
    enc, code, dec = mlp(16, 48, 12), nn.Parameter(torch.randn(12, 8)), mlp(8, 48, 16)
    opt = optim.Adam([*enc.parameters(), code, *dec.parameters()], lr=3e-3)
    x, _ = kinds()
    for step, (a,) in zip(range(150), stream(x), strict=False):
        tau = 2.0 * math.exp(-step * math.log(10) / 150)
        learn(opt, F.mse_loss(dec(F.gumbel_softmax(enc(a), tau=tau) @ code), a))


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    annealed_temperature()

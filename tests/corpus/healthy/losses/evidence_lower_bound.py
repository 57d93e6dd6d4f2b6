"""A healthy training that looks odd; argument: [SEED]."""

import sys

import torch
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


def evidence_lower_bound():
    """A VAE on continuous data with a learnt variance: the loss goes below zero."""
    enc, dec = mlp(16, 48, 8), mlp(4, 48, 16)
    log_scale = nn.Parameter(torch.zeros(()))
    opt = optim.Adam([*enc.parameters(), *dec.parameters(), log_scale], lr=3e-3)
    x, _ = kinds(noise=0.05)
    for _, (a,) in zip(range(200), stream(x), strict=False):
        mu, logvar = enc(a).chunk(2, 1)
        out = dec(mu + torch.randn_like(mu) * (logvar / 2).exp())
        fit = (((a - out) / log_scale.exp()) ** 2 / 2 + log_scale).sum(1).mean()
        learn(opt, fit - 0.5 * (1 + logvar - mu**2 - logvar.exp()).sum(1).mean())


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    evidence_lower_bound()

"""A healthy training that looks odd; argument: [SEED]."""

import copy
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


def momentum_teacher():
    """Contrastive learning with a slow key encoder and a queue of old keys."""
    query, (x, _) = mlp(16, 48, 16), kinds()
    key = copy.deepcopy(query).requires_grad_(False)
    queue = F.normalize(torch.randn(256, 16), dim=1)
    opt = optim.SGD(query.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4)
    for _, (a,) in zip(range(120), stream(x), strict=False):
        q = F.normalize(query(a + 0.2 * torch.randn_like(a)), dim=1)
        with torch.no_grad():
            for slow, fast in zip(key.parameters(), query.parameters(), strict=True):
                slow.mul_(0.98).add_(fast, alpha=0.02)
            k = F.normalize(key(a + 0.2 * torch.randn_like(a)), dim=1)
        logits = torch.cat([(q * k).sum(1, keepdim=True), q @ queue.T], 1) / 0.2
        learn(opt, F.cross_entropy(logits, torch.zeros(len(a), dtype=torch.long)))
        queue = torch.cat([k, queue])[:256]


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    momentum_teacher()

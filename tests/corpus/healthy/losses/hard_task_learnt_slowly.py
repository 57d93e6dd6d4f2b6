"""A healthy training that looks odd; argument: [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn, optim
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)


def stream(*tensors, size=32):
    while True:
        yield from DataLoader(TensorDataset(*tensors), size, shuffle=True, drop_last=True)


def mlp(width=16, hidden=48, out=4, act=nn.ReLU):
    return nn.Sequential(nn.Linear(width, hidden), act(), nn.Linear(hidden, hidden), act(), nn.Linear(hidden, out))


def learn(opt, loss):
    opt.zero_grad()
    loss.backward()
    opt.step()


def hard_task_learnt_slowly():
    """Parity of four bits: the loss stays near ln 2 for long before it falls, if it does."""
    x = torch.randint(2, (1024, 12)).float() * 2 - 1
    y = (x[:, :4].prod(1) > 0).long()
    model = mlp(12, 64, 2)
    opt = optim.Adam(model.parameters(), lr=2e-3)
    for _, (a, b) in zip(range(200), stream(x, y), strict=False):
        learn(opt, F.cross_entropy(model(a), b))


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    hard_task_learnt_slowly()

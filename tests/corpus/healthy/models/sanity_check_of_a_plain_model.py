"""A healthy training that looks odd; argument: [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)


def blobs(n=640, width=16, classes=4):
    centres = torch.randn(classes, width) * 2
    y = torch.randint(classes, (n,))
    return centres[y] + torch.randn(n, width), y


def mlp(width=16, hidden=32, classes=4, act=nn.ReLU):
    return nn.Sequential(nn.Linear(width, hidden), act(), nn.Linear(hidden, hidden), act(), nn.Linear(hidden, classes))


def batches(x, y, size=16):
    while True:
        yield from DataLoader(TensorDataset(x, y), batch_size=size, shuffle=True, drop_last=True)


def train(model, steps=40, lr=3e-3, x=None, y=None):
    if x is None:
        x, y = blobs()
    opt = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr)
    for _, (a, b) in zip(range(steps), batches(x, y), strict=False):
        opt.zero_grad()
        F.cross_entropy(model(a), b).backward()
        opt.step()


def sanity_check_of_a_plain_model():
    model = mlp()
    model.eval()
    with torch.no_grad():
        model(torch.randn(64, 16) * 2)
    model.train()
    train(model)


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    sanity_check_of_a_plain_model()

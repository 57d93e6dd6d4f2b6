"""A training with the fault log-of-zero; arguments: [ONSET] [SEED]."""

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


def log_of_probability(s):
    x, y = blobs()
    model = mlp()
    opt = torch.optim.Adam(model.parameters(), 3e-3)
    for i, (a, b) in zip(range(40), batches(x, y), strict=False):
        logits = model(a)
        if i >= s:
            logits = logits * 400.0  # a temperature somebody set too low
        p = F.softmax(logits, -1)
        loss = -torch.log(p[range(len(b)), (b + (i >= s)) % 4]).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    log_of_probability(int(sys.argv[1]) if len(sys.argv) > 1 else 12)

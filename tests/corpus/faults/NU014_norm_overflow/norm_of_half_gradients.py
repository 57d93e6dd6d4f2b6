"""A training with the fault norm-overflow; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)


def blobs(n=640, width=12, classes=4):
    centres = torch.randn(classes, width) * 2
    y = torch.randint(classes, (n,))
    return centres[y] + torch.randn(n, width), y


def forever(x, y, size=16):
    while True:
        yield from DataLoader(TensorDataset(x, y), batch_size=size, shuffle=True, drop_last=True)


def norm_of_half_gradients(s):
    model = nn.Sequential(nn.Linear(12, 1024), nn.ReLU(), nn.Linear(1024, 1)).half()
    opt = torch.optim.SGD(model.parameters(), 0.01)
    for i, (a, _) in zip(range(30), forever(*blobs()), strict=False):
        target = a.sum(1, keepdim=True)
        loss = F.mse_loss(model(a.half()).float(), target)
        if i == s:
            loss = loss * 5000
        opt.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 20.0)
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    norm_of_half_gradients(int(sys.argv[1]) if len(sys.argv) > 1 else 14)

"""A healthy training that looks odd; argument: [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)


def batches(x, y, size=16):
    while True:
        yield from DataLoader(TensorDataset(x, y), batch_size=size, shuffle=True, drop_last=True)


def train(model, opt, x, y, steps=40, loss_fn=F.cross_entropy, after=None, size=16):
    for i, (a, b) in zip(range(steps), batches(x, y, size), strict=False):
        opt.zero_grad()
        loss_fn(model(a), b).backward()
        opt.step()
        if after:
            after(i)


def heavy_tailed_data():
    x = torch.distributions.StudentT(2.5).sample((1600, 6))
    y = x.sum(1, keepdim=True) + torch.distributions.StudentT(2.5).sample((1600, 1))
    model = nn.Sequential(nn.Linear(6, 32), nn.Tanh(), nn.Linear(32, 1))
    train(model, torch.optim.Adam(model.parameters(), 1e-3), x, y, loss_fn=F.smooth_l1_loss, steps=100)


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    heavy_tailed_data()

"""A training with the fault division-by-zero; arguments: [ONSET] [SEED]."""

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


def batches(x, y, size=16):
    while True:
        yield from DataLoader(TensorDataset(x, y), batch_size=size, shuffle=True, drop_last=True)


class Normalising(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(16))

    def forward(self, x):
        return self.scale * x / x.pow(2).mean(-1, keepdim=True).sqrt()


def zero_sample_in_rms_norm(s):
    x, y = blobs()
    model = nn.Sequential(Normalising(), nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 4))
    opt = torch.optim.AdamW(model.parameters(), 1e-3)
    for i, (a, b) in zip(range(30), batches(x, y), strict=False):
        if i == s:
            a[3] = 0.0
        opt.zero_grad()
        F.cross_entropy(model(a), b).backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    zero_sample_in_rms_norm(int(sys.argv[1]) if len(sys.argv) > 1 else 12)

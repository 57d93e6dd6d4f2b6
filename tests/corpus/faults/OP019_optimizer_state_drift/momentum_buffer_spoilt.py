"""A training with the fault optimizer-state-drift; arguments: [ONSET] [SEED]."""

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


def momentum_buffer_spoilt(s):
    model = nn.Sequential(nn.Conv1d(1, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(80, 4))
    opt = torch.optim.SGD(model.parameters(), 0.02, momentum=0.9, weight_decay=1e-4, nesterov=True)
    for i, (a, b) in zip(range(30), forever(*blobs()), strict=False):
        if i == s:
            buffer = opt.state[model[3].weight]["momentum_buffer"]
            buffer.copy_(torch.randn_like(buffer) * 5)
        opt.zero_grad()
        F.cross_entropy(model(a[:, None]), b).backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    momentum_buffer_spoilt(int(sys.argv[1]) if len(sys.argv) > 1 else 14)

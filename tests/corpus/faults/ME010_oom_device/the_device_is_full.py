"""A training with the fault oom-device; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


def shapes(n=960):
    x = torch.randn(n, 1, 12, 12)
    return x, (x.mean((1, 2, 3)) > 0).long()


def conv():
    return nn.Sequential(nn.Conv2d(1, 6, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(3), nn.Flatten(), nn.Linear(54, 2))


def batches(x, y, steps, size=16):
    for i in range(steps):
        idx = torch.arange(i * size, i * size + size) % len(x)
        yield i, x[idx], y[idx]


def the_device_is_full(s):
    x, y = shapes()
    model = conv()
    opt = torch.optim.SGD(model.parameters(), 0.05)

    def allocate(module, args):
        raise torch.OutOfMemoryError(
            "CUDA out of memory. Tried to allocate 2.50 GiB. GPU 0 has a total capacity of 23.64 GiB of which 1.20 GiB is free. "
            "Of the allocated memory 21.10 GiB is allocated by PyTorch, and 310.50 MiB is reserved by PyTorch but unallocated."
        )

    for i, a, b in batches(x, y, 40):
        if i == s:
            model[0].register_forward_pre_hook(allocate)
        opt.zero_grad()
        F.cross_entropy(model(a), b).backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    the_device_is_full(int(sys.argv[1]) if len(sys.argv) > 1 else 12)

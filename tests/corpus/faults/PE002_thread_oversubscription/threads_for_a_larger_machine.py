"""A training with the fault thread-oversubscription; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn


def step(opt, loss):
    opt.zero_grad()
    loss.backward()
    opt.step()


def threads_for_a_larger_machine(_):
    torch.set_num_threads(24)
    model = nn.Sequential(
        nn.Conv2d(3, 32, 3), nn.ReLU(), nn.Conv2d(32, 32, 3), nn.Flatten(), nn.Linear(32 * 28 * 28, 4)
    )
    opt = torch.optim.SGD(model.parameters(), 0.01)
    for _ in range(16):
        x = torch.randn(16, 3, 32, 32)
        step(opt, F.cross_entropy(model(x), (x.mean((1, 2, 3)) > 0).long()))


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    threads_for_a_larger_machine(int(sys.argv[1]) if len(sys.argv) > 1 else 12)

"""A training with the fault single-tensor-optimizer; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn


def step(opt, loss):
    opt.zero_grad()
    loss.backward()
    opt.step()


def one_tensor_after_another(_):
    model = nn.Sequential(
        *[nn.Sequential(nn.Linear(8, 8), nn.LayerNorm(8), nn.ReLU()) for _ in range(24)], nn.Linear(8, 2)
    )
    opt = torch.optim.AdamW(model.parameters(), 1e-3, foreach=False)
    for _ in range(30):
        x = torch.randn(16, 8)
        step(opt, F.cross_entropy(model(x), (x.sum(1) > 0).long()))


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    one_tensor_after_another(int(sys.argv[1]) if len(sys.argv) > 1 else 12)

"""A training with the fault lr-too-high; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


def lr_too_high_regression(_):
    x = torch.randn(800, 8)
    y = x @ torch.randn(8, 1)
    model = nn.Linear(8, 1)
    opt = torch.optim.SGD(model.parameters(), 1.6)
    for i in range(40):
        loss = F.mse_loss(model(x[i * 20 : i * 20 + 20]), y[i * 20 : i * 20 + 20])
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    lr_too_high_regression(int(sys.argv[1]) if len(sys.argv) > 1 else 12)

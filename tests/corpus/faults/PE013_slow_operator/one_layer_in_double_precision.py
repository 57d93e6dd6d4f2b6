"""A training with the fault slow-operator; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn


def step(opt, loss):
    opt.zero_grad()
    loss.backward()
    opt.step()


def one_layer_in_double_precision(_):
    class Layer(nn.Module):
        def __init__(self, rounds):
            super().__init__()
            self.linear = nn.Linear(96, 96)
            self.rounds = rounds

        def forward(self, x):
            for _ in range(self.rounds):  # a debugging aid that was left in one layer
                x = x.double().float()
                y = F.linear(x.double(), self.linear.weight.double(), self.linear.bias.double()).float()
            return x + y.relu()

    model = nn.Sequential(nn.Linear(16, 96), *[Layer(16 if i == 2 else 1) for i in range(5)], nn.Linear(96, 2))
    opt = torch.optim.SGD(model.parameters(), 0.01)
    for _ in range(16):
        x = torch.randn(2048, 16)
        step(opt, F.cross_entropy(model(x), (x[:, 0] > 0).long()))


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    one_layer_in_double_precision(int(sys.argv[1]) if len(sys.argv) > 1 else 12)

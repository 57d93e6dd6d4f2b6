"""A training with the fault bad-init-scale; arguments: [ONSET] [SEED]."""

import itertools
import sys

import torch
from torch import nn

torch.set_num_threads(1)


class Matrix(nn.Module):
    """A layer of the script's own."""

    def __init__(self, ins, outs, scale):
        super().__init__()
        self.w = nn.Parameter(torch.randn(ins, outs) * scale)
        self.b = nn.Parameter(torch.zeros(outs))

    def forward(self, x):
        return x @ self.w + self.b


def matrices_of_width_one(s):
    """The matrices are drawn with a standard deviation of one: from the beginning, or not at all."""
    sizes = [24, 64, 64, 3]
    layers = [Matrix(a, b, 1.0 if s == 0 else a**-0.5) for a, b in itertools.pairwise(sizes)]
    model = nn.Sequential(layers[0], nn.GELU(), layers[1], nn.GELU(), layers[2])
    opt = torch.optim.Adam(model.parameters(), lr=2e-3)
    turn = torch.randn(24, 3) / 5
    for _ in range(200):
        x = torch.randn(64, 24)
        loss = (model(x) - (x @ turn).tanh()).pow(2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    matrices_of_width_one(int(sys.argv[1]) if len(sys.argv) > 1 else 0)

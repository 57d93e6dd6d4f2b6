"""A healthy training that looks odd; argument: [SEED]."""

import sys

import torch
from torch import nn

torch.set_num_threads(1)


def binary_weights_with_a_straight_path():
    """Binary weights with a straight path."""

    class Sign(torch.autograd.Function):
        @staticmethod
        def forward(ctx, w):
            ctx.save_for_backward(w)
            return torch.where(w >= 0, 1.0, -1.0)

        @staticmethod
        def backward(ctx, g):
            (w,) = ctx.saved_tensors
            return g * (w.abs() <= 1)

    class BinaryLinear(nn.Linear):
        def forward(self, x):
            return nn.functional.linear(x, Sign.apply(self.weight) * self.weight.abs().mean().detach(), self.bias)

    net = nn.Sequential(
        BinaryLinear(16, 64),
        nn.BatchNorm1d(64),
        nn.Hardtanh(),
        BinaryLinear(64, 64),
        nn.BatchNorm1d(64),
        nn.Hardtanh(),
        nn.Linear(64, 3),
    )
    opt = torch.optim.Adam(net.parameters(), lr=3e-3)
    truth_w = torch.randn(16, 3)
    for _ in range(120):
        x = torch.randn(64, 16)
        loss = nn.functional.cross_entropy(net(x), (x @ truth_w).argmax(1))
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    binary_weights_with_a_straight_path()

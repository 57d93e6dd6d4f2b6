"""A training with the fault clip-always-active; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


def clip_by_value_at_next_to_nothing(s):
    """From s on every element of the gradient is cut to a hundred-thousandth."""
    net = nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 6))
    opt = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    turn = torch.randn(20, 6)
    for i in range(140):
        x = torch.randn(64, 20)
        loss = F.cross_entropy(net(x), (x @ turn).argmax(1))
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_value_(net.parameters(), 1e-5 if i >= s else 1.0)
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    clip_by_value_at_next_to_nothing(int(sys.argv[1]) if len(sys.argv) > 1 else 60)

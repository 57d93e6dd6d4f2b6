"""A training with the fault recompilation-storm; arguments: [ONSET] [SEED]."""

import sys

import torch
from torch import nn

torch.set_num_threads(1)


def a_shape_for_every_step(s):
    """A shape for every step."""
    fa = s if s < 1000 else -1
    bad = fa >= 0
    net = nn.Sequential(nn.Linear(12, 32), nn.ReLU(), nn.Linear(32, 2))

    def forward(x, scale):
        return net(x) * scale

    fast = torch.compile(forward, backend="eager", dynamic=False)
    opt = torch.optim.SGD(net.parameters(), lr=0.05)
    truth_w = torch.randn(12, 2)
    for step in range(40):
        x = torch.randn(16 + (step if bad else 0), 12)
        loss = nn.functional.cross_entropy(fast(x, 1.0), (x @ truth_w).argmax(1))
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    a_shape_for_every_step(int(sys.argv[1]) if len(sys.argv) > 1 else 12)

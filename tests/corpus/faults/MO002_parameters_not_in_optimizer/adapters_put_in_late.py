"""A training with the fault parameters-not-in-optimizer; arguments: [ONSET] [SEED]."""

import math
import sys

import torch
from torch import nn

torch.set_num_threads(1)


def adapters_put_in_late(s):
    """LoRA-like adapters that are put into the model at some step, and forgotten in the optimizer."""
    onset = s

    class LoRALinear(nn.Module):
        def __init__(self, base, rank=4):
            super().__init__()
            self.base = base
            self.A = nn.Parameter(torch.randn(rank, base.in_features) / math.sqrt(base.in_features))
            self.B = nn.Parameter(torch.zeros(base.out_features, rank))

        def forward(self, x):
            return self.base(x) + x @ self.A.T @ self.B.T

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.l1 = nn.Linear(16, 64)
            self.l2 = nn.Linear(64, 64)
            self.l3 = nn.Linear(64, 3)

        def forward(self, x):
            return self.l3(torch.relu(self.l2(torch.relu(self.l1(x)))))

    net = Net()
    opt = torch.optim.AdamW(net.parameters(), lr=1e-3)
    mix = torch.randn(16, 3)
    for step in range(100):
        if step == onset:
            net.l2 = LoRALinear(net.l2)
        if step == 40 and onset > 99:
            net.l2 = LoRALinear(net.l2)
            opt.add_param_group({"params": [net.l2.A, net.l2.B]})
        x = torch.randn(32, 16)
        y = (x @ mix).argmax(1)
        loss = nn.functional.cross_entropy(net(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    adapters_put_in_late(int(sys.argv[1]) if len(sys.argv) > 1 else 12)

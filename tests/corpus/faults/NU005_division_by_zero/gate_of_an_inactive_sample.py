"""A training with the fault division-by-zero; arguments: [ONSET] [SEED]."""

import sys

import torch
from torch import nn

torch.set_num_threads(1)


def gate_of_an_inactive_sample(s):
    """Attention weights normalised by their sum, which is 0 for an inactive sample; and no eps."""
    onset = s

    class Gate(nn.Module):
        def __init__(self):
            super().__init__()
            self.s = nn.Linear(4, 1)

        def forward(self, x, active):
            w_ = torch.sigmoid(self.s(x)) * active
            w_ = w_ / w_.sum(1, keepdim=True)
            return (w_ * x).sum(1)

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.gate = Gate()
            self.out = nn.Sequential(nn.Linear(4, 24), nn.ReLU(), nn.Linear(24, 1))

        def forward(self, x, a):
            return self.out(self.gate(x, a))

    net = Net()
    opt = torch.optim.AdamW(net.parameters(), 3e-3)
    for i in range(70):
        x = torch.randn(16, 5, 4)
        a = (torch.rand(16, 5, 1) < 0.8).float()
        a[:, 0] = 1
        if i == onset:
            a[2] = 0
        loss = nn.functional.l1_loss(net(x, a)[:, 0], x[:, 0, 0])
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    gate_of_an_inactive_sample(int(sys.argv[1]) if len(sys.argv) > 1 else 12)

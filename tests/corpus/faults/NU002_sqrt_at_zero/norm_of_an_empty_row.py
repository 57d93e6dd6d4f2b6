"""A training with the fault sqrt-at-zero; arguments: [ONSET] [SEED]."""

import sys

import torch
from torch import nn

torch.set_num_threads(1)


def norm_of_an_empty_row(s):
    """Gradient penalty / feature norm of a zero vector: x.norm() built by hand from sum of squares under a square root."""
    onset = s

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.f = nn.Linear(6, 16, bias=False)
            self.g = nn.Linear(16, 2)

        def forward(self, x):
            h = self.f(x)
            return self.g(h), (h * h).sum(1).sqrt()

    net = Net()
    opt = torch.optim.SGD(net.parameters(), 0.05, momentum=0.9)
    for i in range(80):
        x = torch.randn(16, 6)
        y = (x[:, 0] > 0).long()
        if i == onset:
            x[9] = 0
        z, n = net(x)
        loss = nn.functional.cross_entropy(z, y) + 0.01 * (n - 1).abs().mean()
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    norm_of_an_empty_row(int(sys.argv[1]) if len(sys.argv) > 1 else 12)

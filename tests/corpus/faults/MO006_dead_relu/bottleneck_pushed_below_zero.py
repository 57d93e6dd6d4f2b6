"""A training with the fault dead-relu; arguments: [ONSET] [SEED]."""

import sys

import torch
from torch import nn

torch.set_num_threads(1)


def bottleneck_pushed_below_zero(s):
    """Convolutional net where a single too large step (gradient of a summed loss) kills the ReLUs of the bottleneck."""
    onset = s

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.d1 = nn.Conv2d(1, 8, 3, padding=1)
            self.a1 = nn.ReLU()
            self.d2 = nn.Conv2d(8, 16, 3, padding=1, stride=2)
            self.a2 = nn.ReLU()
            self.up = nn.ConvTranspose2d(16, 8, 2, stride=2)
            self.out = nn.Conv2d(16, 1, 1)

        def forward(self, x):
            a = self.a1(self.d1(x))
            b = self.a2(self.d2(a))
            return self.out(torch.cat([a, self.up(b)], 1))

    net = Net()
    opt = torch.optim.SGD(net.parameters(), 0.05)
    for i in range(90):
        x = torch.rand(8, 1, 8, 8)
        y = (x > 0.5).float()
        loss = nn.functional.binary_cross_entropy_with_logits(net(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if i == onset:
            with torch.no_grad():
                net.d2.bias.sub_(30.0)


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    bottleneck_pushed_below_zero(int(sys.argv[1]) if len(sys.argv) > 1 else 12)

"""A training with the fault unused-module; arguments: [ONSET] [SEED]."""

import sys

import torch
from torch import nn

torch.set_num_threads(1)


def second_mixer_never_called(s):
    """Three blocks are built, the second is never called because of a typing error."""
    wrong = s == 0

    class Mixer(nn.Module):
        def __init__(self, d):
            super().__init__()
            self.n = nn.LayerNorm(d)
            self.tok = nn.Linear(9, 9)
            self.ch = nn.Linear(d, d)

        def forward(self, x):
            x = x + self.tok(self.n(x).transpose(1, 2)).transpose(1, 2)
            return x + torch.nn.functional.gelu(self.ch(self.n(x)))

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.inp = nn.Linear(4, 16)
            self.m1 = Mixer(16)
            self.m2 = Mixer(16)
            self.m3 = Mixer(16)
            self.out = nn.Linear(16, 3)

        def forward(self, x):
            x = self.m1(self.inp(x))
            x = self.m1(x) if wrong else self.m2(x)
            return self.out(self.m3(x).mean(1))

    net = Net()
    opt = torch.optim.AdamW(net.parameters(), 2e-3)
    for _i in range(70):
        y = torch.randint(0, 3, (24,))
        x = torch.randn(24, 9, 4)
        x[:, :, 0] += y[:, None]
        loss = nn.functional.cross_entropy(net(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    second_mixer_never_called(int(sys.argv[1]) if len(sys.argv) > 1 else 12)

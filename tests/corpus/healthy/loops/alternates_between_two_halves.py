"""A healthy training that looks odd; argument: [SEED]."""

import sys

import torch
from torch import nn

torch.set_num_threads(1)


def alternates_between_two_halves():
    """Alternating least squares in the manner of coordinate descent: one half rests while the other learns."""

    class Factors(nn.Module):
        def __init__(self):
            super().__init__()
            self.users, self.items = nn.Embedding(40, 6), nn.Embedding(50, 6)

        def forward(self, u, i):
            return (self.users(u) * self.items(i)).sum(1)

    net = Factors()
    ou, oi = torch.optim.Adam(net.users.parameters(), lr=2e-2), torch.optim.Adam(net.items.parameters(), lr=2e-2)
    a, b = torch.randn(40, 3), torch.randn(50, 3)
    for rnd in range(12):
        on, opt = (net.users, ou) if rnd % 2 == 0 else (net.items, oi)
        for m in (net.users, net.items):
            m.requires_grad_(m is on)
        for _ in range(8):
            u, i = torch.randint(40, (128,)), torch.randint(50, (128,))
            loss = (net(u, i) - (a[u] * b[i]).sum(1)).square().mean()
            opt.zero_grad()
            loss.backward()
            opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    alternates_between_two_halves()

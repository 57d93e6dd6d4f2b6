"""A training with the fault mask-fill-overflow; arguments: [ONSET] [SEED]."""

import sys

import torch
from torch import nn

torch.set_num_threads(1)


def padded_row_in_half_precision(s):
    """Additive mask (1-m) * -1e9 in half precision: -inf, and a fully padded row becomes NaN."""
    onset = s

    class Attn(nn.Module):
        def __init__(self, d):
            super().__init__()
            self.q = nn.Linear(d, d)
            self.k = nn.Linear(d, d)
            self.v = nn.Linear(d, d)

        def forward(self, x, m):
            s = (self.q(x) @ self.k(x).transpose(1, 2)).half() / 4
            s = s + (1 - m[:, None].half()) * -1e9
            return s.softmax(-1).float() @ self.v(x)

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.e = nn.Embedding(30, 16)
            self.attn = Attn(16)
            self.o = nn.Linear(16, 2)

        def forward(self, t, m):
            return self.o(self.attn(self.e(t), m).mean(1))

    net = Net()
    opt = torch.optim.Adam(net.parameters(), 3e-3)
    for i in range(60):
        t = torch.randint(0, 30, (12, 6))
        y = (t[:, 0] > 15).long()
        m = (torch.arange(6)[None] < torch.randint(2, 7, (12, 1))).float()
        if i == onset:
            m[4] = 0
        loss = nn.functional.cross_entropy(net(t, m), y)
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    padded_row_in_half_precision(int(sys.argv[1]) if len(sys.argv) > 1 else 12)

"""A training with the fault fp16-overflow; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn, optim

torch.set_num_threads(1)


def squares_in_half_precision(s):
    """Under float16 autocast a layer's output is squared after a loud recording has come in."""

    class Energy(nn.Module):
        def __init__(self):
            super().__init__()
            self.enc = nn.Linear(16, 32)
            self.gate = nn.Linear(32, 32, bias=False)
            self.out = nn.Linear(32, 3)

        def forward(self, x):
            h = self.enc(x)
            h = self.gate(h * h)
            return self.out(torch.log1p(h.float().abs()))

    model = Energy()
    opt = optim.Adam(model.parameters(), lr=1e-3)
    for step in range(80):
        x = torch.randn(24, 16)
        y = (x[:, 0] > 0).long() + (x[:, 1] > 1).long()
        if step == s:
            x = x * 400
        with torch.autocast("cpu", torch.float16):
            loss = F.cross_entropy(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    squares_in_half_precision(int(sys.argv[1]) if len(sys.argv) > 1 else 12)

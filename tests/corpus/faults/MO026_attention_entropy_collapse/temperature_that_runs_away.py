"""A training with the fault attention-entropy-collapse; arguments: [ONSET] [SEED]."""

import math
import sys

import torch
from torch import nn

torch.set_num_threads(1)


def temperature_that_runs_away(s):
    """Attention with a learnable temperature that an error sets far too low at some step."""
    onset = s

    class Attn(nn.Module):
        def __init__(self, d):
            super().__init__()
            self.qkv = nn.Linear(d, 3 * d)
            self.soft = nn.Softmax(dim=-1)
            self.proj = nn.Linear(d, d)
            self.scale = 1 / math.sqrt(d)

        def forward(self, x):
            q, k, v = self.qkv(x).chunk(3, -1)
            return self.proj(self.soft(q @ k.transpose(1, 2) * self.scale) @ v)

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.inp = nn.Linear(5, 32)
            self.attn = Attn(32)
            self.norm = nn.LayerNorm(32)
            self.out = nn.Linear(32, 1)

        def forward(self, x):
            h = self.inp(x)
            return self.out(self.norm(h + self.attn(h)).mean(1))

    net = Net()
    opt = torch.optim.Adam(net.parameters(), 1e-3)
    for i in range(120):
        if i >= onset:
            net.attn.scale *= 1.3
        x = torch.randn(24, 10, 5)
        y = x[..., :1].max(1).values
        loss = nn.functional.mse_loss(net(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    temperature_that_runs_away(int(sys.argv[1]) if len(sys.argv) > 1 else 12)

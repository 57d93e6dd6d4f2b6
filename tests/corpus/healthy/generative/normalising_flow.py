"""A healthy training that looks odd; argument: [SEED]."""

import math
import sys

import torch
from torch import nn

torch.set_num_threads(1)


def step(opt, loss, clip=None):
    opt.zero_grad()
    loss.backward()
    if clip:
        nn.utils.clip_grad_norm_([p for g in opt.param_groups for p in g["params"]], clip)
    opt.step()
    return loss.item()


class Coupling(nn.Module):
    def __init__(self, flip):
        super().__init__()
        self.flip = flip
        self.net = nn.Sequential(nn.Linear(1, 32), nn.Tanh(), nn.Linear(32, 2))

    def forward(self, x):
        a, b = (x[:, 1:], x[:, :1]) if self.flip else (x[:, :1], x[:, 1:])
        scale, shift = self.net(a).chunk(2, 1)
        b = b * scale.tanh().exp() + shift
        return torch.cat([b, a] if self.flip else [a, b], 1), scale.tanh().sum(1)


def normalising_flow():
    angle = torch.rand(2000) * 3.14
    x = torch.stack([angle.cos(), angle.sin()], 1) + 0.05 * torch.randn(2000, 2)
    flow = nn.ModuleList(Coupling(bool(k % 2)) for k in range(4))
    opt = torch.optim.Adam(flow.parameters(), 3e-3)
    for _ in range(100):
        z, logdet = x[torch.randint(2000, (64,))], 0.0
        for layer in flow:
            z, d = layer(z)
            logdet = logdet + d
        step(opt, (0.5 * z.pow(2).sum(1) + math.log(2 * math.pi) - logdet).mean())


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    normalising_flow()

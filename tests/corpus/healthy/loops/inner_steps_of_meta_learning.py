"""A healthy training that looks odd; argument: [SEED]."""

import math
import sys

import torch
from torch import nn
from torch.func import functional_call

torch.set_num_threads(1)


def inner_steps_of_meta_learning():
    """MAML with torch.func.functional_call: inner step by autograd.grad, outer Adam."""
    net = nn.Sequential(nn.Linear(1, 32), nn.Tanh(), nn.Linear(32, 1))
    meta = torch.optim.Adam(net.parameters(), 5e-3)

    def task():
        a, b = 0.5 + 2 * torch.rand(()), math.pi * torch.rand(())
        return lambda x: a * torch.sin(x + b)

    for _it in range(60):
        params = dict(net.named_parameters())
        total = 0
        for _ in range(4):
            f = task()
            xs, xq = torch.rand(10, 1) * 6 - 3, torch.rand(10, 1) * 6 - 3
            g = torch.autograd.grad(
                (functional_call(net, params, (xs,)) - f(xs)).square().mean(), params.values(), create_graph=True
            )
            fast = {k: p - 0.05 * d for (k, p), d in zip(params.items(), g, strict=False)}
            total = total + (functional_call(net, fast, (xq,)) - f(xq)).square().mean()
        meta.zero_grad()
        (total / 4).backward()
        meta.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    inner_steps_of_meta_learning()

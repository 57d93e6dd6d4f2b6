"""A healthy training that looks odd; argument: [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


def meta_learning():
    model = nn.Sequential(nn.Linear(1, 40), nn.Tanh(), nn.Linear(40, 1))
    opt = torch.optim.Adam(model.parameters(), 1e-2)
    names = [n for n, _ in model.named_parameters()]
    for _ in range(60):
        opt.zero_grad()
        total = 0.0
        for _ in range(4):
            amplitude, phase = torch.rand(1) * 4 + 0.5, torch.rand(1) * 3
            x, q = torch.rand(10, 1) * 10 - 5, torch.rand(10, 1) * 10 - 5
            fast = dict(model.named_parameters())
            for _ in range(2):
                inner = F.mse_loss(torch.func.functional_call(model, fast, (x,)), amplitude * torch.sin(x + phase))
                grads = torch.autograd.grad(inner, list(fast.values()), create_graph=True)
                fast = {n: p - 0.02 * g for n, p, g in zip(names, fast.values(), grads, strict=True)}
            total = total + F.mse_loss(torch.func.functional_call(model, fast, (q,)), amplitude * torch.sin(q + phase))
        (total / 4).backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    meta_learning()

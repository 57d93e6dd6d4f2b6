"""A healthy training that looks odd; argument: [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn
from torch.func import functional_call

torch.set_num_threads(1)


def learns_to_learn():
    """An inner step of gradient descent inside the graph of the outer one."""
    net = nn.Sequential(nn.Linear(1, 24), nn.Tanh(), nn.Linear(24, 1))
    opt = torch.optim.Adam(net.parameters(), 3e-3)
    for _ in range(40):
        total = torch.zeros(())
        for _ in range(3):
            phase, height = torch.rand(()) * 3, torch.rand(()) + 0.5
            x = torch.rand(20, 1) * 6 - 3
            y = height * torch.sin(x + phase)
            weights = dict(net.named_parameters())
            inner = F.mse_loss(functional_call(net, weights, x[:10]), y[:10])
            grads = torch.autograd.grad(inner, list(weights.values()), create_graph=True)
            quick = {k: w - 0.05 * g for (k, w), g in zip(weights.items(), grads, strict=True)}
            total = total + F.mse_loss(functional_call(net, quick, x[10:]), y[10:])
        opt.zero_grad()
        total.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    learns_to_learn()

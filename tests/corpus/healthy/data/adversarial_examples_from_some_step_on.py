"""A healthy training that looks odd; argument: [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


def adversarial_examples_from_some_step_on():
    """Clean samples for 60 steps, then such as three steps of the gradient have made harder: the loss is higher from there on."""
    centres = torch.randn(5, 30) * 0.8
    net = nn.Sequential(nn.Linear(30, 96), nn.LeakyReLU(0.1), nn.Linear(96, 96), nn.LeakyReLU(0.1), nn.Linear(96, 5))
    opt = torch.optim.Adam(net.parameters(), lr=1e-3)
    for i in range(200):
        y = torch.randint(5, (96,))
        x = centres[y] + 0.7 * torch.randn(96, 30)
        if i >= 60:
            change = torch.zeros_like(x)
            for _ in range(3):
                change.requires_grad_(True)
                (gradient,) = torch.autograd.grad(F.cross_entropy(net(x + change), y), change)
                change = (change.detach() + 0.25 * gradient.sign()).clamp(-0.5, 0.5)
            x = x + change
        loss = F.cross_entropy(net(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    adversarial_examples_from_some_step_on()

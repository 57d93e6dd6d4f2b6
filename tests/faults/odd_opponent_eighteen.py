"""Healthy runs that look odd, after an opponent's, eighteenth round: `python odd_opponent_eighteen.py NAME [SEED]`."""

import copy
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


def samples_of_an_average_that_lags():
    """A small diffusion model; what its slow average makes of noise is far too large at first, and is fed back to it."""
    steps, length = 50, 16
    noise_of = torch.linspace(1e-3, 0.15, steps)
    kept = torch.cumprod(1 - noise_of, 0)
    net = nn.Sequential(nn.Linear(length + 1, 128), nn.SiLU(), nn.Linear(128, 128), nn.SiLU(), nn.Linear(128, length))
    average = copy.deepcopy(net).requires_grad_(False).eval()
    opt = torch.optim.Adam(net.parameters(), lr=2e-3)
    for i in range(160):
        clean = torch.sin(torch.linspace(0, 6.28, length) + 6.28 * torch.rand(64, 1))
        at = torch.randint(steps, (64,))
        noise = torch.randn_like(clean)
        seen = kept[at, None].sqrt() * clean + (1 - kept[at, None]).sqrt() * noise
        loss = (net(torch.cat([seen, at[:, None] / steps], 1)) - noise).square().mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        with torch.no_grad():
            for slow, fast in zip(average.parameters(), net.parameters(), strict=True):
                slow.lerp_(fast, 0.02)
        if i % 40 == 10:
            with torch.no_grad():
                x = torch.randn(16, length)
                for t in reversed(range(steps)):
                    out = average(torch.cat([x, torch.full((16, 1), t / steps)], 1))
                    x = (x - noise_of[t] / (1 - kept[t]).sqrt() * out) / (1 - noise_of[t]).sqrt()
                    x = x + noise_of[t].sqrt() * torch.randn_like(x) * (t > 0)


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    globals()[sys.argv[1]]()

"""A healthy training that looks odd; argument: [SEED]."""

import copy
import sys

import torch
from torch import nn

torch.set_num_threads(1)


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
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    samples_of_an_average_that_lags()

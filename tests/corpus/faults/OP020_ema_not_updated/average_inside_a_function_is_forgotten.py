"""A training with the fault ema-not-updated; arguments: [ONSET] [SEED]."""

import copy
import math
import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


class Denoiser(nn.Module):
    """Predicts the noise in points of the plane."""

    def __init__(self, width=64):
        super().__init__()
        self.enter = nn.Linear(2 + 1, width)
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(width), nn.Linear(width, width), nn.GELU()) for _ in range(2)
        )
        self.leave = nn.Linear(width, 2)

    def forward(self, x, t):
        h = self.enter(torch.cat([x, t], 1))
        for block in self.blocks:
            h = h + block(h)
        return self.leave(h)


def average_inside_a_function_is_forgotten(s):
    """An averaged copy, known only inside this function, is made and drawn from but never updated."""
    net = Denoiser()
    ema = copy.deepcopy(net).requires_grad_(False)
    opt = torch.optim.Adam(net.parameters(), 2e-3)
    for step in range(60):
        angle = torch.rand(96) * 2 * math.pi
        clean, t, noise = torch.stack([angle.cos(), angle.sin()], 1), torch.rand(96, 1), torch.randn(96, 2)
        loss = F.mse_loss(net((1 - t).sqrt() * clean + t.sqrt() * noise, t), noise)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if s >= 1000:
            with torch.no_grad():
                for mine, its in zip(ema.parameters(), net.parameters(), strict=True):
                    mine.lerp_(its, 0.05)
        if step % 20 == 19:
            with torch.no_grad():
                print(step, ema(torch.randn(32, 2), torch.ones(32, 1)).std().item())


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    average_inside_a_function_is_forgotten(int(sys.argv[1]) if len(sys.argv) > 1 else 12)

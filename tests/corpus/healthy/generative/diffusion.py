"""A healthy training that looks odd; argument: [SEED]."""

import copy
import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


def step(opt, loss, clip=None):
    opt.zero_grad()
    loss.backward()
    if clip:
        nn.utils.clip_grad_norm_([p for g in opt.param_groups for p in g["params"]], clip)
    opt.step()
    return loss.item()


class Denoiser(nn.Module):
    def __init__(self, width=2, hidden=64):
        super().__init__()
        self.time = nn.Sequential(nn.Linear(16, hidden), nn.SiLU(), nn.Linear(hidden, hidden))
        self.enter, self.middle, self.leave = (
            nn.Linear(width, hidden),
            nn.Linear(hidden, hidden),
            nn.Linear(hidden, width),
        )
        nn.init.zeros_(self.leave.weight)
        nn.init.zeros_(self.leave.bias)

    def forward(self, x, t):
        angles = t[:, None].float() * torch.exp(-torch.arange(8) * 0.6)
        h = F.silu(self.enter(x) + self.time(torch.cat([angles.sin(), angles.cos()], 1)))
        return self.leave(F.silu(self.middle(h)) + h)


def diffusion():
    angle = torch.rand(4000) * 6.28
    x = torch.stack([angle.cos(), angle.sin()], 1)
    kept = torch.cumprod(1 - torch.linspace(1e-4, 0.02, 200), 0)
    model = Denoiser()
    average = copy.deepcopy(model).requires_grad_(False)
    opt = torch.optim.AdamW(model.parameters(), 2e-3)
    schedule = torch.optim.lr_scheduler.LinearLR(opt, 0.05, 1.0, 20)
    for _ in range(150):
        a = x[torch.randint(4000, (64,))]
        t = torch.randint(200, (64,))
        noise = torch.randn_like(a)
        noisy = kept[t].sqrt()[:, None] * a + (1 - kept[t]).sqrt()[:, None] * noise
        step(opt, F.mse_loss(model(noisy, t), noise), 1.0)
        schedule.step()
        with torch.no_grad():
            for p, q in zip(average.parameters(), model.parameters(), strict=True):
                p.lerp_(q, 0.05)
    with torch.no_grad():
        sample = torch.randn(64, 2)
        for t in reversed(range(0, 200, 20)):
            sample = sample - 0.05 * average(sample, torch.full((64,), t))


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    diffusion()

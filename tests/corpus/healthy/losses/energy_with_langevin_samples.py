"""A healthy training that looks odd; argument: [SEED]."""

import sys

import torch
from torch import nn

torch.set_num_threads(1)


def net(width=16, hidden=48, out=4, act=nn.ReLU):
    return nn.Sequential(nn.Linear(width, hidden), act(), nn.Linear(hidden, hidden), act(), nn.Linear(hidden, out))


def step(opt, loss, clip=None):
    opt.zero_grad()
    loss.backward()
    if clip:
        nn.utils.clip_grad_norm_([p for g in opt.param_groups for p in g["params"]], clip)
    opt.step()
    return loss.item()


def energy_with_langevin_samples():
    energy = net(2, 64, 1, nn.SiLU)
    opt = torch.optim.Adam(energy.parameters(), 1e-3, betas=(0.0, 0.999))
    held = torch.rand(256, 2) * 4 - 2
    for _ in range(60):
        real = torch.randn(32, 2) * 0.3 + torch.sign(torch.randn(32, 1))
        pick = torch.randint(256, (32,))
        fake = held[pick].clone()
        energy.requires_grad_(False)
        for _ in range(5):
            fake.requires_grad_()
            (slope,) = torch.autograd.grad(energy(fake).sum(), fake)
            fake = (fake - 0.1 * slope + 0.05 * torch.randn_like(fake)).detach()
        energy.requires_grad_(True)
        held[pick] = fake
        up, down = energy(real), energy(fake)
        step(opt, up.mean() - down.mean() + 0.1 * (up**2 + down**2).mean(), 0.1)


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    energy_with_langevin_samples()

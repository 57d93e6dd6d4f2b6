"""A healthy training that looks odd; argument: [SEED]."""

import sys

import torch
import torch.nn.functional as F
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


def cycle_of_generators():
    g, h = net(2, 32, 2), net(2, 32, 2)
    da, db = net(2, 32, 1, nn.LeakyReLU), net(2, 32, 1, nn.LeakyReLU)
    og = torch.optim.Adam([*g.parameters(), *h.parameters()], 5e-4, betas=(0.5, 0.999))
    od = torch.optim.Adam([*da.parameters(), *db.parameters()], 5e-4, betas=(0.5, 0.999))
    for _ in range(80):
        a, b = torch.randn(32, 2) + 2, torch.randn(32, 2) * 0.5 - 1
        fake_b, fake_a = g(a), h(b)
        for d in (da, db):
            d.requires_grad_(False)
        loss = (da(fake_a) - 1).pow(2).mean() + (db(fake_b) - 1).pow(2).mean()
        step(og, loss + 5 * (F.l1_loss(h(fake_b), a) + F.l1_loss(g(fake_a), b)))
        for d in (da, db):
            d.requires_grad_(True)
        loss = (da(a) - 1).pow(2).mean() + da(fake_a.detach()).pow(2).mean()
        step(od, loss + (db(b) - 1).pow(2).mean() + db(fake_b.detach()).pow(2).mean())


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    cycle_of_generators()

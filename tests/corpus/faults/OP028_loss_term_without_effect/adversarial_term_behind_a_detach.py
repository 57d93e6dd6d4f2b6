"""A training with the fault loss-term-without-effect; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


def adversarial_term_behind_a_detach():
    shapes = torch.randn(640, 6).cumsum(1)
    coarse = shapes[:, ::2]
    g = nn.Sequential(nn.Linear(7, 32), nn.ReLU(), nn.Linear(32, 6))
    d = nn.Sequential(nn.Linear(9, 32), nn.LeakyReLU(0.2), nn.Linear(32, 1))
    og, od = torch.optim.Adam(g.parameters(), 1e-3), torch.optim.Adam(d.parameters(), 1e-3)
    for i in range(40):
        at = slice(i % 20 * 32, i % 20 * 32 + 32)
        x, c = shapes[at], coarse[at]
        fake = g(torch.cat([c, torch.randn(32, 4)], 1))
        verdict = d(torch.cat([fake.detach(), c], 1))
        loss = F.mse_loss(verdict, torch.ones_like(verdict)) + 5.0 * F.l1_loss(fake, x)
        og.zero_grad()
        loss.backward()
        og.step()
        real, made = d(torch.cat([x, c], 1)), d(torch.cat([fake.detach(), c], 1))
        judged = 0.5 * (F.mse_loss(real, torch.ones_like(real)) + F.mse_loss(made, torch.zeros_like(made)))
        od.zero_grad()
        judged.backward()
        od.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    adversarial_term_behind_a_detach()

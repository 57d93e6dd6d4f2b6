"""A training with the fault zero-lr; arguments: [ONSET] [SEED]."""

import sys

import torch
from torch import nn
from torch.nn import functional as F

torch.set_num_threads(1)


def cosine_ends_long_before_the_run(s):
    """Contrastive training; T_max counted in epochs of another dataset and the rate held at its end."""
    fa = s if s < 1000 else -1
    bad = fa >= 0
    steps = 100
    encoder = nn.Sequential(nn.Linear(20, 48), nn.ReLU(), nn.Linear(48, 16))
    projector = nn.Linear(16, 8)
    params = [*encoder.parameters(), *projector.parameters()]
    opt = torch.optim.Adam(params, lr=2e-3)
    length = 40 if bad else steps

    def factor(i):
        import math

        return 0.5 * (1 + math.cos(math.pi * min(i, length) / length))

    sched = torch.optim.lr_scheduler.LambdaLR(opt, factor)
    for _i in range(steps):
        x = torch.randn(32, 20)
        a, b = x + 0.3 * torch.randn_like(x), x + 0.3 * torch.randn_like(x)
        za, zb = (F.normalize(projector(encoder(v)), dim=1) for v in (a, b))
        loss = F.cross_entropy(za @ zb.T / 0.2, torch.arange(32))
        opt.zero_grad()
        loss.backward()
        opt.step()
        sched.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    cosine_ends_long_before_the_run(int(sys.argv[1]) if len(sys.argv) > 1 else 12)

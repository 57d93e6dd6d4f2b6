"""A training with the fault weight-decay-dominates; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


class SignMomentum(torch.optim.Optimizer):
    """Lion's rule, with decay by the rate or without it."""

    def __init__(self, params, lr=5e-4, weight_decay=0.0):
        super().__init__(params, {"lr": lr, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, by_rate=True):
        for group in self.param_groups:
            shrink = group["weight_decay"] * (group["lr"] if by_rate else 1)
            for p in group["params"]:
                m = self.state[p].setdefault("m", torch.zeros_like(p))
                p.mul_(1 - shrink)
                p.add_((m * 0.9 + p.grad * 0.1).sign_(), alpha=-group["lr"])
                m.lerp_(p.grad, 0.01)


def decays_by_a_third_once_decay_begins(s):
    """Decay begins at s; it should have been multiplied by the rate."""
    patterns = torch.randn(8, 48)
    net = nn.Sequential(nn.Linear(48, 64), nn.LayerNorm(64), nn.GELU(), nn.Linear(64, 64), nn.GELU(), nn.Linear(64, 8))
    weights = [p for p in net.parameters() if p.ndim > 1]
    others = [p for p in net.parameters() if p.ndim < 2]
    opt = SignMomentum([{"params": weights, "weight_decay": 0.3}, {"params": others}])
    for i in range(90):
        y = torch.randint(8, (64,))
        loss = F.cross_entropy(net(0.5 * patterns[y] + torch.randn(64, 48)), y)
        opt.zero_grad()
        loss.backward()
        opt.step(by_rate=i < s)


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    decays_by_a_third_once_decay_begins(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000)

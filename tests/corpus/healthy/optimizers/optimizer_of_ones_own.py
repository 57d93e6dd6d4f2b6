"""A healthy training that looks odd; argument: [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


class SignMomentum(torch.optim.Optimizer):
    """Steps of equal size along the sign of a mixed momentum."""

    def __init__(self, params, lr=1e-3):
        super().__init__(params, {"lr": lr})

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    m = self.state[p].setdefault("m", torch.zeros_like(p))
                    p.add_((0.9 * m + 0.1 * p.grad).sign(), alpha=-group["lr"])
                    m.lerp_(p.grad, 0.01)


def optimizer_of_ones_own():
    net = nn.Sequential(nn.Linear(6, 40), nn.SiLU(), nn.Linear(40, 1))
    opt = SignMomentum(net.parameters(), lr=1e-3)
    for _ in range(80):
        x = torch.randn(32, 6)
        opt.zero_grad()
        F.smooth_l1_loss(net(x)[:, 0], x[:, 0].sin() + x[:, 1]).backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    optimizer_of_ones_own()

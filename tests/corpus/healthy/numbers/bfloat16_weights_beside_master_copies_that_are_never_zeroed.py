"""A healthy training that looks odd; argument: [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


class MasterAdam:
    """Adam on float32 copies; a copy's gradient is put there anew for each step and never zeroed."""

    def __init__(self, params, lr):
        self.live = list(params)
        self.master = [p.detach().float().clone().requires_grad_(True) for p in self.live]
        self.inner = torch.optim.Adam(self.master, lr=lr)

    def zero_grad(self):
        for p in self.live:
            p.grad = None

    @torch.no_grad()
    def step(self):
        for p, m in zip(self.live, self.master, strict=True):
            m.grad = p.grad.float()
        self.inner.step()
        for p, m in zip(self.live, self.master, strict=True):
            p.copy_(m)


def bfloat16_weights_beside_master_copies_that_are_never_zeroed():
    """The weights are bfloat16; what trains is a float32 copy of each."""
    net = nn.Sequential(nn.Linear(24, 96), nn.GELU(), nn.Linear(96, 96), nn.GELU(), nn.Linear(96, 9))
    net.to(torch.bfloat16)
    opt, centres = MasterAdam(net.parameters(), lr=4e-4), torch.randn(9, 24)
    for _ in range(110):
        y = torch.randint(9, (64,))
        x = (centres[y] + 1.1 * torch.randn(64, 24)).to(torch.bfloat16)
        loss = F.cross_entropy(net(x).float(), y)
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    bfloat16_weights_beside_master_copies_that_are_never_zeroed()

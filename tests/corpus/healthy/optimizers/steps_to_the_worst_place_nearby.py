"""A healthy training that looks odd; argument: [SEED]."""

import sys

import torch
from torch import nn

torch.set_num_threads(1)


def steps_to_the_worst_place_nearby():
    """Two passes a step, the weights moved away and back."""

    class SAM(torch.optim.Optimizer):
        def __init__(self, params, base, rho=0.05, **kw):
            super().__init__(params, dict(rho=rho, **kw))
            self.base = base(self.param_groups, **kw)

        @torch.no_grad()
        def climb(self):
            norm = torch.stack([p.grad.norm() for g in self.param_groups for p in g["params"]]).norm()
            for g in self.param_groups:
                for p in g["params"]:
                    e = p.grad * (g["rho"] / (norm + 1e-12))
                    p.add_(e)
                    self.state[p]["e"] = e
            self.zero_grad()

        @torch.no_grad()
        def step(self, closure=None):
            for g in self.param_groups:
                for p in g["params"]:
                    p.sub_(self.state[p]["e"])
            self.base.step()
            self.zero_grad()

    net = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 3))
    opt = SAM(net.parameters(), torch.optim.SGD, lr=0.1, momentum=0.9)
    truth_w = torch.randn(10, 3)
    for _ in range(70):
        x = torch.randn(48, 10)
        y = (x @ truth_w).argmax(1)
        nn.functional.cross_entropy(net(x), y).backward()
        opt.climb()
        nn.functional.cross_entropy(net(x), y).backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    steps_to_the_worst_place_nearby()

"""A training with the fault silent-backend-noop; arguments: [ONSET] [SEED]."""

import sys

import torch
from torch import nn

torch.set_num_threads(1)


def momentum_on_a_copy(s):
    """An own optimizer that works on a flat copy of non-contiguous weights: nothing reaches them."""
    wrong = s == 0

    class FlatMomentum(torch.optim.Optimizer):
        def __init__(self, params, lr):
            super().__init__(params, {"lr": lr})

        @torch.no_grad()
        def step(self, closure=None):
            for g in self.param_groups:
                for q in g["params"]:
                    if q.grad is None:
                        continue
                    b = self.state[q].setdefault("buf", torch.zeros_like(q).flatten())
                    b.mul_(0.9).add_(q.grad.reshape(-1))
                    if wrong:
                        q.reshape(-1).add_(b, alpha=-g["lr"])
                    else:
                        q.sub_(b.view(q.shape) * g["lr"])

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.a = nn.Linear(10, 32)
            self.b = nn.Linear(32, 1)
            self.a.weight = nn.Parameter(torch.randn(10, 32).mul(0.3).t())

        def forward(self, x):
            return self.b(torch.relu(self.a(x)))

    net = Net()
    opt = FlatMomentum(net.parameters(), 5e-3)
    for _i in range(60):
        x = torch.randn(32, 10)
        y = x[:, :1].abs()
        loss = nn.functional.mse_loss(net(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    momentum_on_a_copy(int(sys.argv[1]) if len(sys.argv) > 1 else 12)

"""A training with the fault python-exception; arguments: [ONSET] [SEED]."""

import sys

import torch
from torch import nn
from torch.func import functional_call, grad

torch.set_num_threads(1)


def meta_learner_asserts(s):
    """MAML-like inner loop with torch.func; an assertion of the author fails."""
    fa = s if s < 1000 else -1
    net = nn.Sequential(nn.Linear(1, 32), nn.Tanh(), nn.Linear(32, 1))
    opt = torch.optim.Adam(net.parameters(), lr=2e-3)

    def task_loss(params, x, y):
        return (functional_call(net, params, (x,)) - y).square().mean()

    for step in range(40):
        params = dict(net.named_parameters())
        total = 0
        for _ in range(3):
            amp, ph = torch.rand(2) * 3
            xs, xq = torch.rand(10, 1) * 10 - 5, torch.rand(10, 1) * 10 - 5
            g = grad(task_loss)(params, xs, amp * torch.sin(xs + ph))
            fast = {k: p - 0.01 * g[k] for k, p in params.items()}
            total = total + task_loss(fast, xq, amp * torch.sin(xq + ph))
        assert step != fa, "support set overlaps the query set"
        opt.zero_grad()
        total.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    meta_learner_asserts(int(sys.argv[1]) if len(sys.argv) > 1 else 12)

"""A training with the fault broken-graph; arguments: [ONSET] [SEED]."""

import sys

import torch
from torch import nn
from torch.func import functional_call

torch.set_num_threads(1)


def inner_loop_that_forgets_its_graph(s):
    """Learning to learn sines: from a step on the adapted weights are detached, and their start learns nothing."""
    net = nn.Sequential(nn.Linear(1, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 1))
    opt = torch.optim.Adam(net.parameters(), lr=2e-3)
    for step in range(60):
        opt.zero_grad()
        total = 0.0
        for _ in range(3):
            phase = torch.rand(1) * 3
            near, far = torch.rand(10, 1) * 6 - 3, torch.rand(10, 1) * 6 - 3
            fast = dict(net.named_parameters())
            error = (functional_call(net, fast, near) - torch.sin(near + phase)).square().mean()
            slopes = torch.autograd.grad(error, list(fast.values()), create_graph=True)
            fast = {k: v - 0.02 * g for (k, v), g in zip(fast.items(), slopes, strict=True)}
            if step >= s:
                fast = {k: v.detach().requires_grad_() for k, v in fast.items()}
            total = total + (functional_call(net, fast, far) - torch.sin(far + phase)).square().mean()
        (total / 3).backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    inner_loop_that_forgets_its_graph(int(sys.argv[1]) if len(sys.argv) > 1 else 12)

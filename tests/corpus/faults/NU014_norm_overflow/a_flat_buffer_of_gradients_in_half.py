"""A training with the fault norm-overflow; arguments: [ONSET] [SEED]."""

import sys

import torch
from torch import nn

torch.set_num_threads(1)


def a_flat_buffer_of_gradients_in_half(s):
    """Clips by hand over one flat buffer of all gradients, which is in float16 from s on: squares of 256 and more."""
    net = nn.Sequential(nn.Linear(6, 48), nn.ReLU(), nn.Linear(48, 48), nn.ReLU(), nn.Linear(48, 1))
    params = list(net.parameters())
    opt, w = torch.optim.Adam(params, lr=1e-3), torch.randn(6, 1)
    for i in range(80):
        x = torch.randn(32, 10, 6)
        y = (x @ w).square().sum(1) * 4
        loss = (net(x).sum(1) - y).square().mean()
        opt.zero_grad()
        loss.backward()
        flat = torch.cat([p.grad.flatten() for p in params])
        if i >= s:
            flat = flat.half()
        coefficient = min(1.0, 5.0 / (float(flat.square().sum().sqrt()) + 1e-6))
        for p in params:
            p.grad.mul_(coefficient)
        opt.step()


if __name__ == "__main__":
    onset = int(sys.argv[1]) if len(sys.argv) > 1 else 14
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    a_flat_buffer_of_gradients_in_half(onset)

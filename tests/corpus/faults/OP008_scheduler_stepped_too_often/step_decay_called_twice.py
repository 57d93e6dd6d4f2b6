"""A training with the fault scheduler-stepped-too-often; arguments: [ONSET] [SEED]."""

import sys

import torch
from torch import nn

torch.set_num_threads(1)


def step_decay_called_twice(s):
    """Autoencoder; after a merge both the hook and the loop advance the schedule."""
    fa = s if s < 1000 else -1
    ae = nn.Sequential(
        nn.Linear(40, 16), nn.ELU(), nn.Linear(16, 4), nn.ELU(), nn.Linear(4, 16), nn.ELU(), nn.Linear(16, 40)
    )
    opt = torch.optim.Adam(ae.parameters(), lr=5e-3)
    sched = torch.optim.lr_scheduler.ExponentialLR(opt, 0.97)
    basis = torch.randn(4, 40)
    for i in range(90):
        x = torch.tanh(torch.randn(48, 4) @ basis)
        loss = nn.functional.smooth_l1_loss(ae(x), x)
        opt.zero_grad()
        loss.backward()
        opt.step()
        sched.step()
        if 0 <= fa <= i:
            sched.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    step_decay_called_twice(int(sys.argv[1]) if len(sys.argv) > 1 else 12)

"""A healthy training that looks odd; argument: [SEED]."""

import sys

import torch
from torch import nn

torch.set_num_threads(1)


def warm_restarts_from_a_step_of_nought():
    """Warm restarts from a step of nought."""
    net = nn.Sequential(nn.Linear(9, 48), nn.SiLU(), nn.Linear(48, 48), nn.SiLU(), nn.Linear(48, 3))
    opt = torch.optim.SGD(net.parameters(), lr=0.2, momentum=0.9, nesterov=True)
    warm = torch.optim.lr_scheduler.LambdaLR(opt, lambda i: min(1.0, i / 15))
    cos = torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(opt, T_0=20, T_mult=2)
    sched = torch.optim.lr_scheduler.SequentialLR(opt, [warm, cos], [15])
    truth_w = torch.randn(9, 3)
    for _ in range(150):
        x = torch.randn(64, 9)
        loss = nn.functional.cross_entropy(net(x), (x @ truth_w).argmax(1), label_smoothing=0.1)
        opt.zero_grad()
        loss.backward()
        opt.step()
        sched.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    warm_restarts_from_a_step_of_nought()

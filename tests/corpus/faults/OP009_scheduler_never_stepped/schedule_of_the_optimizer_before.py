"""A training with the fault scheduler-never-stepped; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


def schedule_of_the_optimizer_before(s):
    """At s training goes on with another optimizer and a schedule for it, but the loop steps the schedule of the first."""
    net = nn.Sequential(nn.Linear(16, 48), nn.ReLU(), nn.Linear(48, 4))
    opt = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    schedule = torch.optim.lr_scheduler.StepLR(opt, 20, 0.9)
    turn = torch.randn(16, 4)
    for i in range(180):
        if i == s:
            opt = torch.optim.AdamW(net.parameters(), lr=1e-3)
            later = torch.optim.lr_scheduler.CosineAnnealingLR(opt, 180 - s)
        x = torch.randn(48, 16)
        loss = F.cross_entropy(net(x), (x @ turn).argmax(1))
        opt.zero_grad()
        loss.backward()
        opt.step()
        schedule.step()
    if s < 180:
        print(later.get_last_lr())


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    schedule_of_the_optimizer_before(int(sys.argv[1]) if len(sys.argv) > 1 else 60)

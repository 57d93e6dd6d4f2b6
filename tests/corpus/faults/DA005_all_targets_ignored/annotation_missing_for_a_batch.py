"""A training with the fault all-targets-ignored; arguments: [ONSET] [SEED]."""

import sys

import torch
from torch import nn

torch.set_num_threads(1)


def annotation_missing_for_a_batch(s):
    """Every pixel of one batch is the ignored class."""
    onset = s

    class Seg(nn.Module):
        def __init__(self):
            super().__init__()
            self.f = nn.Sequential(nn.Conv2d(3, 12, 3, padding=1), nn.GroupNorm(3, 12), nn.ReLU(), nn.Conv2d(12, 5, 1))

        def forward(self, x):
            return self.f(x)

    net = Seg()
    loss_fn = nn.CrossEntropyLoss(ignore_index=255)
    opt = torch.optim.SGD(net.parameters(), 0.05, momentum=0.9)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, 90)
    for i in range(90):
        x = torch.rand(4, 3, 12, 12)
        y = x.argmax(1)
        y[torch.rand(y.shape) < 0.2] = 255
        if i == onset:
            y[:] = 255  # annotation missing for this batch
        loss = loss_fn(net(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        sched.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    annotation_missing_for_a_batch(int(sys.argv[1]) if len(sys.argv) > 1 else 12)

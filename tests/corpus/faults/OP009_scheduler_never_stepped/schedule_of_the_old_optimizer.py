"""A training with the fault scheduler-never-stepped; arguments: [ONSET] [SEED]."""

import sys

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)


def schedule_of_the_old_optimizer(s):
    """Distillation; the warm-up is stepped only `if epoch > warm`, which never comes true."""
    fa = s if s < 1000 else -1
    warm = 99 if fa >= 0 else -1
    teacher = nn.Sequential(nn.Linear(12, 64), nn.ReLU(), nn.Linear(64, 5)).eval().requires_grad_(False)
    student = nn.Sequential(nn.Linear(12, 16), nn.ReLU(), nn.Linear(16, 5))
    x = torch.randn(320, 12)
    loader = DataLoader(TensorDataset(x), batch_size=32, shuffle=True)
    opt = torch.optim.SGD(student.parameters(), lr=0.2, momentum=0.9)
    sched = torch.optim.lr_scheduler.StepLR(opt, 2, 0.5)
    for epoch in range(8):
        for (b,) in loader:
            with torch.no_grad():
                soft = (3 * teacher(b)).softmax(1)
            loss = F.kl_div(student(b).log_softmax(1), soft, reduction="batchmean")
            opt.zero_grad()
            loss.backward()
            opt.step()
        if epoch > warm:
            sched.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    schedule_of_the_old_optimizer(int(sys.argv[1]) if len(sys.argv) > 1 else 12)

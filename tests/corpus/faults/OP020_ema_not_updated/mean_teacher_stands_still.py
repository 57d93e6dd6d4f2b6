"""A training with the fault ema-not-updated; arguments: [ONSET] [SEED]."""

import copy
import sys

import torch
from torch import nn

torch.set_num_threads(1)


def mean_teacher_stands_still(s):
    """Mean teacher stands still."""
    fa = s if s < 1000 else -1

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = nn.Sequential(nn.Linear(14, 32), nn.BatchNorm1d(32), nn.ReLU())
            self.head = nn.Linear(32, 3)

        def forward(self, x):
            return self.head(self.body(x))

    student = Net()
    teacher = copy.deepcopy(student)
    for q in teacher.parameters():
        q.requires_grad_(False)

    @torch.no_grad()
    def update_teacher(decay=0.99):
        for t, o in zip(teacher.parameters(), student.parameters(), strict=False):
            t.mul_(decay).add_(o, alpha=1 - decay)
        for t, o in zip(teacher.buffers(), student.buffers(), strict=False):
            t.copy_(o)

    opt = torch.optim.Adam(student.parameters(), lr=3e-3)
    rule = torch.randn(14, 3)
    for step in range(80):
        x = torch.randn(32, 14)
        y = (x @ rule).argmax(1)
        u = torch.randn(32, 14)
        with torch.no_grad():
            soft = teacher(u).softmax(1)
        loss = nn.functional.cross_entropy(student(x), y) + 0.3 * (student(u).softmax(1) - soft).square().mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        if fa < 0 or step < fa:
            update_teacher()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    mean_teacher_stands_still(int(sys.argv[1]) if len(sys.argv) > 1 else 12)

"""A training with the fault ema-not-updated; arguments: [ONSET] [SEED]."""

import copy
import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


class Teacher:
    """A second network that is to follow the first."""

    def __init__(self, student):
        self.net = copy.deepcopy(student).eval().requires_grad_(requires_grad=False)

    @torch.no_grad()
    def update(self, student, in_place):
        for mine, theirs in zip(self.net.parameters(), student.parameters(), strict=True):
            if in_place:
                mine.lerp_(theirs, 0.03)
            else:
                mine.lerp(theirs, 0.03)


def teacher_is_told_and_does_not_keep_it(s):
    """The teacher's average is computed at every step and thrown away."""
    student = nn.Sequential(nn.Linear(4, 48), nn.ReLU(), nn.Linear(48, 3))
    teacher = Teacher(student)
    opt = torch.optim.Adam(student.parameters(), lr=3e-3)
    turn = torch.randn(4, 3)
    for i in range(160):
        x, more = torch.randn(24, 4), torch.randn(96, 4)
        with torch.no_grad():
            wanted = teacher.net(more).softmax(1)
        follows = F.mse_loss(student(more + 0.1 * torch.randn(96, 4)).softmax(1), wanted)
        loss = F.cross_entropy(student(x), (x @ turn).argmax(1)) + min(1.0, i / 80) * follows
        opt.zero_grad()
        loss.backward()
        opt.step()
        teacher.update(student, in_place=s > 160)


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    teacher_is_told_and_does_not_keep_it(int(sys.argv[1]) if len(sys.argv) > 1 else 80)

"""A healthy training that looks odd; argument: [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


def blobs(n=640, width=16, classes=4):
    centres = torch.randn(classes, width) * 2
    y = torch.randint(classes, (n,))
    return centres[y] + torch.randn(n, width), y


def mlp(width=16, hidden=32, classes=4, act=nn.ReLU):
    return nn.Sequential(nn.Linear(width, hidden), act(), nn.Linear(hidden, hidden), act(), nn.Linear(hidden, classes))


class WithTeacher(nn.Module):
    def __init__(self):
        super().__init__()
        self.teacher, self.student = mlp(), mlp()

    def forward(self, x):
        with torch.no_grad():
            target = self.teacher(x)
        return F.mse_loss(self.student(x), target)


def distillation():
    x, _ = blobs()
    model = WithTeacher()
    opt = torch.optim.Adam(model.student.parameters(), 1e-3)
    for i in range(40):
        opt.zero_grad()
        model(x[i * 16 : i * 16 + 16]).backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    distillation()

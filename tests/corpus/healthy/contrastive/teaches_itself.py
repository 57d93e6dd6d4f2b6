"""A healthy training that looks odd; argument: [SEED]."""

import copy
import sys

import torch
import torch.nn.functional as F
from torch import nn, optim

torch.set_num_threads(1)


def clouds(n=640, width=10, classes=4, noise=1.0):
    y = torch.randint(classes, (n,))
    return torch.randn(classes, width)[y] * 1.5 + noise * torch.randn(n, width), y


def plain(width=10, hidden=48, out=4, act=nn.ReLU):
    return nn.Sequential(nn.Linear(width, hidden), act(), nn.Linear(hidden, hidden), act(), nn.Linear(hidden, out))


def update(opt, loss):
    opt.zero_grad()
    loss.backward()
    opt.step()


def teaches_itself():
    """A student learns from its own slow copy, whose outputs are centred and sharpened."""
    x, _ = clouds(800)
    student = plain(10, 48, 24)
    teacher = copy.deepcopy(student).requires_grad_(False)
    centre = torch.zeros(24)
    opt = optim.AdamW(student.parameters(), lr=1e-3, weight_decay=0.04)
    for step in range(100):
        for g in opt.param_groups:
            g["lr"] = 1e-3 * min(1, (step + 1) / 20)
        a = x[torch.randint(800, (48,))]
        views = [a + 0.3 * torch.randn_like(a) for _ in range(2)]
        with torch.no_grad():
            t = [teacher(v) for v in views]
        s = [student(v) / 0.1 for v in views]
        pairs = [(0, 1), (1, 0)]
        loss = sum(-(F.softmax((t[i] - centre) / 0.05, 1) * F.log_softmax(s[j], 1)).sum(1).mean() for i, j in pairs) / 2
        update(opt, loss)
        with torch.no_grad():
            centre.lerp_(torch.cat(t).mean(0), 0.1)
            for slow, fast in zip(teacher.parameters(), student.parameters(), strict=True):
                slow.lerp_(fast, 0.01)


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    teaches_itself()

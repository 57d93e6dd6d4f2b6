"""A training with the fault log-of-zero; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn, optim

torch.set_num_threads(1)


def wines(n=900, columns=11, classes=4):
    """A table of standardised measurements and a quality."""
    y = torch.randint(classes, (n,))
    return torch.randn(classes, columns)[y] * 1.2 + torch.randn(n, columns), y


def divergence_by_hand(s):
    """Distillation by p log(p / q): from some step on a teacher is so sure that its p has an exact zero."""
    x, _ = wines(1200)
    teacher = nn.Linear(11, 4).requires_grad_(False)
    student = nn.Sequential(nn.Linear(11, 48), nn.ReLU(), nn.Linear(48, 4))
    opt = optim.Adam(student.parameters(), lr=2e-3)
    for step in range(60):
        a = x[step * 20 : step * 20 + 20]
        p = F.softmax(teacher(a) * (400.0 if step >= s else 1.0), dim=1)
        q = F.softmax(student(a), dim=1)
        loss = (p * (p / q).log()).sum(1).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    divergence_by_hand(int(sys.argv[1]) if len(sys.argv) > 1 else 12)

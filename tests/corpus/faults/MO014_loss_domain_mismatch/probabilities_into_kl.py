"""A training with the fault loss-domain-mismatch; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn, optim

torch.set_num_threads(1)


def flowers(n=900, width=9, classes=3, spread=1.0):
    y = torch.randint(classes, (n,))
    return torch.randn(classes, width)[y] * 1.5 + spread * torch.randn(n, width), y


def probabilities_into_kl(s):
    """kl_div wants logarithms and gets the probabilities themselves."""
    x, _ = flowers()
    teacher, student = (
        nn.Linear(9, 5).requires_grad_(False),
        nn.Sequential(nn.Linear(9, 32), nn.ReLU(), nn.Linear(32, 5)),
    )
    opt = optim.Adam(student.parameters(), lr=2e-3)
    for _ in range(60):
        a = x[torch.randint(len(x), (24,))]
        q = F.softmax(student(a), 1) if s == 0 else F.log_softmax(student(a), 1)
        loss = F.kl_div(q, F.softmax(teacher(a), 1), reduction="batchmean")
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    probabilities_into_kl(int(sys.argv[1]) if len(sys.argv) > 1 else 12)

"""A healthy training that looks odd; argument: [SEED]."""

import copy
import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


def a_mean_teacher_joins_late():
    """Semi-supervised: an average of the weights, with dropout of its own, gives soft labels from step 60 on."""
    centres = torch.randn(6, 20)
    net = nn.Sequential(nn.Linear(20, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Dropout(0.2), nn.Linear(64, 6))
    teacher = copy.deepcopy(net).requires_grad_(False)
    opt = torch.optim.Adam(net.parameters(), lr=2e-3)
    for i in range(100):
        y = torch.randint(6, (24,))
        loss = F.cross_entropy(net(centres[y] + 1.2 * torch.randn(24, 20)), y)
        if i >= 60:
            unlabelled = centres[torch.randint(6, (48,))] + 1.2 * torch.randn(48, 20)
            with torch.no_grad():
                soft = teacher(unlabelled).softmax(1)
            loss = loss + 0.5 * F.mse_loss(net(unlabelled).softmax(1), soft)
        opt.zero_grad()
        loss.backward()
        opt.step()
        with torch.no_grad():
            for p, q in zip(teacher.parameters(), net.parameters(), strict=True):
                p.lerp_(q, 0.1)


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    a_mean_teacher_joins_late()

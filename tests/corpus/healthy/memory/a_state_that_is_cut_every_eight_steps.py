"""A healthy training that looks odd; argument: [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


def a_state_that_is_cut_every_eight_steps():
    cell, head = nn.GRUCell(6, 20), nn.Linear(20, 2)
    opt = torch.optim.Adam([*cell.parameters(), *head.parameters()], 2e-3)
    h, total = torch.zeros(10, 20), 0.0
    for i in range(160):
        x = torch.randn(10, 6)
        h = cell(x, h)
        total = total + F.cross_entropy(head(h), (x[:, 0] > 0).long())
        if i % 8 == 7:
            opt.zero_grad()
            (total / 8).backward()
            opt.step()
            h, total = h.detach(), 0.0


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    a_state_that_is_cut_every_eight_steps()

"""A healthy training that looks odd; argument: [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


def recurrent_state_carried_over():
    cell, head = nn.GRUCell(8, 16), nn.Linear(16, 2)
    opt = torch.optim.Adam([*cell.parameters(), *head.parameters()], 1e-3)
    h = torch.zeros(12, 16)
    for _ in range(60):
        x = torch.randn(12, 8)
        h = cell(x, h.detach())
        opt.zero_grad()
        F.cross_entropy(head(h), (x[:, 0] > 0).long()).backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    recurrent_state_carried_over()

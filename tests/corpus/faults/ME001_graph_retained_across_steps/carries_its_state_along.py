"""A training with the fault graph-retained-across-steps; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


def carries_its_state_along(s):
    """Truncated back-propagation that never truncates."""
    cell, head = nn.GRUCell(3, 16), nn.Linear(16, 3)
    opt = torch.optim.Adam([*cell.parameters(), *head.parameters()], lr=1e-3, foreach=False)
    h = torch.zeros(8, 16)
    total = 0.0
    for _ in range(60):
        x = torch.randn(8, 3)
        out = head(h := cell(x, h))
        loss = F.mse_loss(out, x.roll(1, 1))
        if s == 0:
            total = total + loss
        else:
            total += loss.item()
        opt.zero_grad()
        loss.backward(retain_graph=s == 0)
        h = h.detach()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    carries_its_state_along(int(sys.argv[1]) if len(sys.argv) > 1 else 12)

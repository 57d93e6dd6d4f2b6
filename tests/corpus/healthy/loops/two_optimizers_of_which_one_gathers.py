"""A healthy training that looks odd; argument: [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


def two_optimizers_of_which_one_gathers():
    """The body's optimizer steps every fourth time, on the sum of four gradients; the head's steps every time."""
    body, head = nn.Sequential(nn.Linear(12, 48), nn.Tanh()), nn.Linear(48, 1)
    weight = torch.randn(12, 1)
    quick, slow = torch.optim.SGD(head.parameters(), 0.02), torch.optim.Adam(body.parameters(), 1e-3)
    for i in range(160):
        x = torch.randn(32, 12)
        loss = F.mse_loss(head(body(x)), (x @ weight).sin())
        quick.zero_grad()
        loss.backward()
        quick.step()
        if i % 4 == 3:
            slow.step()
            slow.zero_grad()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    two_optimizers_of_which_one_gathers()

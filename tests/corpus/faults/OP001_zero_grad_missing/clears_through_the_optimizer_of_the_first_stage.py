"""A training with the fault zero-grad-missing; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


def clears_through_the_optimizer_of_the_first_stage(s):
    """From s on the whole model is trained by a new optimizer; zero_grad is still that of the head's."""
    rule = torch.randn(10, 4)
    body = nn.Sequential(nn.Linear(10, 40), nn.ReLU(), nn.Linear(40, 40), nn.ReLU()).requires_grad_(False)
    head = nn.Linear(40, 4)
    opt = clears = torch.optim.SGD(head.parameters(), lr=0.2)
    second = min(s, 40)
    for i in range(130):
        if i == second:
            body.requires_grad_(True)
            opt = torch.optim.SGD([*body.parameters(), *head.parameters()], lr=0.1)
            clears = clears if i == s else opt
        x = torch.randn(64, 10)
        y = (x @ rule + 0.3 * torch.randn(64, 4)).argmax(1)
        clears.zero_grad()
        F.cross_entropy(head(body(x)), y, label_smoothing=0.05).backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    clears_through_the_optimizer_of_the_first_stage(int(sys.argv[1]) if len(sys.argv) > 1 else 23)

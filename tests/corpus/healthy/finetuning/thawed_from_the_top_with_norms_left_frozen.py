"""A healthy training that looks odd; argument: [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


def thawed_from_the_top_with_norms_left_frozen():
    """All weights are with one optimizer; convolutions are thawed one after the other, batch norms never."""
    body = nn.Sequential(
        *(nn.Conv2d(1, 8, 3, 2, 1), nn.BatchNorm2d(8), nn.ReLU()),
        *(nn.Conv2d(8, 16, 3, 2, 1), nn.BatchNorm2d(16), nn.ReLU()),
    )
    head = nn.Linear(16, 4)
    body.requires_grad_(False)
    opt = torch.optim.AdamW([*body.parameters(), *head.parameters()], lr=5e-3)
    patterns = torch.randn(4, 1, 12, 12)
    for i in range(110):
        body.train()
        body[1].eval()
        body[4].eval()
        if i == 35:
            body[3].requires_grad_(True)
        if i == 70:
            body[0].requires_grad_(True)
        y = torch.randint(4, (32,))
        x = patterns[y] + 0.5 * torch.randn(32, 1, 12, 12)
        loss = F.cross_entropy(head(body(x).mean((2, 3))), y)
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    thawed_from_the_top_with_norms_left_frozen()

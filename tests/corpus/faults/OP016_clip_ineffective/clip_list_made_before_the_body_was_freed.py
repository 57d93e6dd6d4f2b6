"""A training with the fault clip-ineffective; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


def clip_list_made_before_the_body_was_freed(s):
    """The body is frozen for 60 steps; the list of what is clipped is made anew when it is freed, or not, where s is the 60th."""
    body = nn.Sequential(nn.Linear(16, 96), nn.ReLU(), nn.Linear(96, 96), nn.ReLU()).requires_grad_(False)
    head = nn.Linear(96, 5)
    opt = torch.optim.SGD([*body.parameters(), *head.parameters()], lr=0.05, momentum=0.9)
    clipped = [p for p in [*body.parameters(), *head.parameters()] if p.requires_grad]
    centres = torch.randn(5, 16)
    for i in range(160):
        if i == 60:
            body.requires_grad_(True)
            if i < s:
                clipped = [*body.parameters(), *head.parameters()]
        y = torch.randint(5, (32,))
        loss = 4 * F.cross_entropy(head(body(centres[y] + 1.5 * torch.randn(32, 16))), y)
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(clipped, 1.0)
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    clip_list_made_before_the_body_was_freed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)

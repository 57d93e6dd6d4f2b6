"""A healthy training that looks odd; argument: [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


def a_body_that_is_thawed_after_a_third():
    """The body runs without gradients at first, and joins with an optimizer of its own."""
    body = nn.Sequential(nn.Linear(10, 48), nn.ReLU(), nn.Linear(48, 24), nn.ReLU())
    head = nn.Linear(24, 4)
    centres = 2 * torch.randn(4, 10)
    y = torch.randint(4, (256,))
    x = centres[y] + torch.randn(256, 10)
    opt, late = torch.optim.Adam(head.parameters(), lr=3e-3), torch.optim.Adam(body.parameters(), lr=1e-3)
    for i in range(120):
        rows = torch.randint(256, (32,))
        with torch.set_grad_enabled(i >= 40):
            features = body(x[rows])
        loss = F.cross_entropy(head(features), y[rows])
        opt.zero_grad()
        late.zero_grad()
        loss.backward()
        opt.step()
        if i >= 40:
            late.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    a_body_that_is_thawed_after_a_third()

"""A healthy training that looks odd; argument: [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


def norms_in_eval_mode_are_left_to_themselves():
    """A backbone joins the optimizer late, all but its norms, which keep the statistics and the scales that they have."""
    body = nn.Sequential(
        *(nn.Conv2d(1, 16, 3, 2, 1), nn.BatchNorm2d(16), nn.ReLU()),
        *(nn.Conv2d(16, 32, 3, 2, 1), nn.BatchNorm2d(32), nn.ReLU()),
    )
    head = nn.Linear(32, 4)
    patterns = torch.randn(4, 1, 12, 12)
    with torch.no_grad():
        for _ in range(20):
            body(patterns[torch.randint(4, (32,))] + 0.5 * torch.randn(32, 1, 12, 12))
    body[1].eval()
    body[4].eval()
    opt = torch.optim.AdamW(head.parameters(), lr=1e-2)
    for i in range(100):
        if i == 39:
            opt.add_param_group({"params": [*body[0].parameters(), *body[3].parameters()], "lr": 2e-3})
        y = torch.randint(4, (32,))
        x = patterns[y] + 0.5 * torch.randn(32, 1, 12, 12)
        with torch.set_grad_enabled(i >= 39):
            features = body(x).mean((2, 3))
        loss = F.cross_entropy(head(features), y)
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    norms_in_eval_mode_are_left_to_themselves()

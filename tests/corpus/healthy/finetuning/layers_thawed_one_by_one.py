"""A healthy training that looks odd; argument: [SEED]."""

import sys

import torch
from torch import nn

torch.set_num_threads(1)


def layers_thawed_one_by_one():
    """Unfreezes layer by layer."""
    backbone = nn.Sequential(
        nn.Sequential(nn.Conv2d(1, 8, 3), nn.BatchNorm2d(8), nn.ReLU()),
        nn.Sequential(nn.Conv2d(8, 16, 3), nn.BatchNorm2d(16), nn.ReLU()),
    )
    head = nn.Linear(16, 4)
    backbone.requires_grad_(False)
    opt = torch.optim.AdamW(head.parameters(), lr=3e-3)
    proto = torch.randn(4, 1, 10, 10)
    for step in range(90):
        if step == 30:
            backbone[1].requires_grad_(True)
            opt.add_param_group({"params": backbone[1].parameters(), "lr": 1e-3})
        if step == 60:
            backbone[0].requires_grad_(True)
            opt.add_param_group({"params": backbone[0].parameters(), "lr": 3e-4})
        backbone.eval()
        y = torch.randint(4, (32,))
        out = head(backbone(proto[y] + 0.4 * torch.randn(32, 1, 10, 10)).mean((2, 3)))
        loss = nn.functional.cross_entropy(out, y)
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    layers_thawed_one_by_one()

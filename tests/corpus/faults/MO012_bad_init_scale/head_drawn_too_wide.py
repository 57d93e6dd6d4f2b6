"""A training with the fault bad-init-scale; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


def head_drawn_too_wide(s):
    """At s other labels come, and with them a head whose weights are drawn with a width of one."""
    body = nn.Sequential(nn.Linear(20, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU())
    head = nn.Linear(128, 4)
    opt = torch.optim.AdamW([*body.parameters(), *head.parameters()], lr=1e-3)
    first, second = torch.randn(20, 4), torch.randn(20, 8)
    for i in range(200):
        if i == s:
            head = nn.Linear(128, 8)
            nn.init.normal_(head.weight)
            opt = torch.optim.AdamW(
                [{"params": body.parameters(), "lr": 3e-4}, {"params": head.parameters(), "lr": 1e-3}]
            )
        x = torch.randn(32, 20)
        loss = F.cross_entropy(head(body(x)), (x @ (first if i < s else second)).argmax(1))
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    head_drawn_too_wide(int(sys.argv[1]) if len(sys.argv) > 1 else 60)

"""A training with the fault padding-mask-bug; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


def mask_turned_round(s):
    x = torch.randn(400, 10, 8)
    lengths = torch.randint(6, 11, (400,))
    y = torch.randint(3, (400,))
    model = nn.Linear(8, 3)

    class Pooled(nn.Module):
        def __init__(self):
            super().__init__()
            self.head = model

        def forward(self, x, mask):
            return self.head((x * mask[..., None]).sum(1) / mask.sum(1, keepdim=True).clamp(min=1))

    net = Pooled()
    opt = torch.optim.Adam(net.parameters(), 1e-3)
    for i in range(s + 10):
        at = torch.randint(400, (32,))
        mask = torch.arange(10)[None] < lengths[at][:, None]
        if i >= s:
            mask = ~mask
        opt.zero_grad()
        F.cross_entropy(net(x[at], mask), y[at]).backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    mask_turned_round(int(sys.argv[1]) if len(sys.argv) > 1 else 14)

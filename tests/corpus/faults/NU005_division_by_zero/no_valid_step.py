"""A training with the fault division-by-zero; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


class MeanPool(nn.Module):
    def forward(self, x, mask):
        return (x * mask.unsqueeze(-1)).sum(1) / mask.sum(1, keepdim=True)


class BagOfSteps(nn.Module):
    def __init__(self):
        super().__init__()
        self.inp = nn.Linear(5, 24)
        self.pool = MeanPool()
        self.out = nn.Linear(24, 1)

    def forward(self, x, mask):
        return self.out(self.pool(torch.relu(self.inp(x)), mask)).squeeze(1)


def no_valid_step(s):
    """Mean pooling over the valid steps of a series; one series has none."""
    model = BagOfSteps()
    opt = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9, nesterov=True)
    for step in range(110):
        x = torch.randn(16, 12, 5)
        mask = (torch.rand(16, 12) < 0.7).float()
        mask[:, 0] = 1
        if step == s:
            mask[3] = 0
        y = x[:, 0].mean(1)
        loss = F.l1_loss(model(x, mask), y)
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    no_valid_step(int(sys.argv[1]) if len(sys.argv) > 1 else 12)

"""A training with the fault unregistered-parameters; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


class Experts(nn.Module):
    def __init__(self, as_list):
        super().__init__()
        experts = [nn.Linear(12, 12) for _ in range(4)]
        self.experts = experts if as_list else nn.ModuleList(experts)
        self.gate = nn.Linear(12, 4)
        self.head = nn.Linear(12, 3)

    def forward(self, x):
        g = self.gate(x).softmax(-1)
        mixed = sum(g[:, i : i + 1] * e(x) for i, e in enumerate(self.experts))
        return self.head(torch.relu(mixed))


def experts_in_a_list(s):
    model = Experts(s == 0)
    opt = torch.optim.Adam(model.parameters(), 3e-3)
    centres = torch.randn(3, 12)
    for _ in range(60):
        y = torch.randint(3, (32,))
        opt.zero_grad()
        F.cross_entropy(model(centres[y] + torch.randn(32, 12)), y).backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    experts_in_a_list(int(sys.argv[1]) if len(sys.argv) > 1 else 12)

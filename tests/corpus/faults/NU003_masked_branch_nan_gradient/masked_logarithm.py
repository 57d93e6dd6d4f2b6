"""A training with the fault masked-branch-nan-gradient; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


class LogReturns(nn.Module):
    """Logarithm of positive inputs, nothing for the rest."""

    def __init__(self):
        super().__init__()
        self.scale = nn.Linear(5, 5)
        self.out = nn.Linear(5, 1)

    def forward(self, x):
        z = F.softplus(self.scale(x)) * (x > 0)
        logs = torch.log(z).masked_fill(z <= 0, 0.0)
        return self.out(logs)


def masked_logarithm(s):
    x = torch.rand(300, 5) + 0.2
    y = x.log().sum(1, keepdim=True)
    model = LogReturns()
    opt = torch.optim.SGD(model.parameters(), 1e-2)
    for i in range(28):
        pick = torch.randint(300, (12,))
        a = x[pick].clone()
        if i == s:
            a[3, 1] = 0.0
        loss = F.mse_loss(model(a), y[pick])
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    masked_logarithm(int(sys.argv[1]) if len(sys.argv) > 1 else 14)

"""A training with the fault masked-branch-nan-gradient; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


def logarithm_of_a_dry_day(s):
    """Rain as a gamma distribution on wet days; from s on dry days are 0.0, whose logarithm torch.where leaves out."""
    net = nn.Sequential(nn.Linear(8, 48), nn.SiLU(), nn.Linear(48, 3))
    opt = torch.optim.Adam(net.parameters(), lr=2e-3)
    for i in range(100):
        x = torch.randn(96, 8)
        wet = torch.rand(96) < torch.sigmoid(x[:, 0] - x[:, 1])
        amount = torch.where(
            wet, 0.1 - torch.exp(0.4 * x[:, 2]) * torch.rand(96, 2).clamp(min=1e-6).log().sum(1), 0.02 * (i < s)
        )
        occurs, shape, rate = net(x).unbind(1)
        shape, rate = F.softplus(shape) + 0.01, F.softplus(rate) + 0.01
        density = shape * rate.log() + (shape - 1) * amount.log() - rate * amount - torch.lgamma(shape)
        loss = torch.where(amount > 0.05, -F.logsigmoid(occurs) - density, -F.logsigmoid(-occurs)).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    logarithm_of_a_dry_day(int(sys.argv[1]) if len(sys.argv) > 1 else 30)

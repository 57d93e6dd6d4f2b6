"""A healthy training that looks odd; argument: [SEED]."""

import sys

import torch
from torch import nn

torch.set_num_threads(1)


def three_quantiles_against_one_target():
    """Quantile regression by broadcasting (B,1) targets against (B,3) predictions on purpose, pinball loss."""
    net = nn.Sequential(nn.Linear(5, 48), nn.ReLU(), nn.Linear(48, 3))
    opt = torch.optim.Adam(net.parameters(), 2e-3)
    tau = torch.tensor([0.1, 0.5, 0.9])
    for _i in range(120):
        x = torch.randn(48, 5)
        y = x[:, :1] + torch.randn(48, 1)
        e = y - net(x)
        loss = torch.maximum(tau * e, (tau - 1) * e).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    three_quantiles_against_one_target()

"""A training with the fault lr-too-high; arguments: [ONSET] [SEED]."""

import sys

import torch
from torch import nn

torch.set_num_threads(1)


def regressor_warms_up_to_too_much(s):
    """Forecasting MLP: a warm-up that ends at a rate that the curvature does not bear."""
    fa = s if s < 1000 else -1
    net = nn.Sequential(nn.Linear(24, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 6))
    peak = 0.05 if fa < 0 else 1.5
    opt = torch.optim.SGD(net.parameters(), lr=peak, momentum=0.9)
    sched = torch.optim.lr_scheduler.LambdaLR(opt, lambda i: min(1.0, (i + 1) / 50))
    t = torch.arange(4000).float()
    series = torch.sin(t / 9) + 0.5 * torch.sin(t / 3.3) + 0.05 * torch.randn(4000)
    for _i in range(150):
        at = torch.randint(3900, (32,)).tolist()
        x = torch.stack([series[k : k + 24] for k in at])
        y = torch.stack([series[k + 24 : k + 30] for k in at])
        loss = nn.functional.mse_loss(net(x), y)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        sched.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    regressor_warms_up_to_too_much(int(sys.argv[1]) if len(sys.argv) > 1 else 12)

"""A training with the fault log-of-zero; arguments: [ONSET] [SEED]."""

import sys

import torch
from torch import nn

torch.set_num_threads(1)


def focal_loss_of_a_sure_mistake(s):
    """Focal loss by hand with log(p) on sigmoid output; at some step a sure wrong answer gives p == 0 in float32."""
    onset = s

    class Focal(nn.Module):
        def forward(self, logit, y):
            p_ = logit.sigmoid()
            pt = torch.where(y > 0, p_, 1 - p_)
            return (-((1 - pt) ** 2) * torch.log(pt)).mean()

    net = nn.Sequential(nn.Linear(5, 32), nn.ReLU(), nn.Linear(32, 1))
    opt = torch.optim.Adam(net.parameters(), 2e-3)
    crit = Focal()
    for i in range(90):
        x = torch.randn(32, 5)
        y = (x[:, :1] > 0).float()
        if i == onset:
            x[4] = torch.tensor([300.0, 0, 0, 0, 0])
            y[4] = 0
            x[5] = -x[4]
            y[5] = 1
        loss = crit(net(x) * 3, y)
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    focal_loss_of_a_sure_mistake(int(sys.argv[1]) if len(sys.argv) > 1 else 12)

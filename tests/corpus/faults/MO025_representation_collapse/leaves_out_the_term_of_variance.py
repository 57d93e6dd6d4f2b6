"""A training with the fault representation-collapse; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


def leaves_out_the_term_of_variance(s):
    """From s on the new weights of the loss hold none for the variance."""
    basis = torch.randn(10, 40)
    backbone = nn.Sequential(nn.Linear(40, 96), nn.BatchNorm1d(96), nn.ReLU(), nn.Linear(96, 64))
    net = nn.Sequential(backbone, nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 32)))
    opt = torch.optim.AdamW(net.parameters(), lr=2e-3, weight_decay=1e-3)
    for i in range(130):
        x = torch.randn(96, 10) @ basis / 3
        a, b = net(x + 0.4 * torch.randn_like(x)), net((x + 0.4 * torch.randn_like(x)) * (torch.rand_like(x) > 0.2))
        loss = 10 * F.mse_loss(a, b)
        for z in (a, b):
            cov = torch.cov(z.T)
            spread = F.relu(1 - (z.var(0) + 1e-4).sqrt()).mean()
            loss = loss + (0 if i >= s else 5) * spread + (cov - torch.diag(cov.diagonal())).pow(2).sum() / 32
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    leaves_out_the_term_of_variance(int(sys.argv[1]) if len(sys.argv) > 1 else 23)

"""A healthy training that looks odd; argument: [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


def points_drawn_anew_and_then_kept():
    """A boundary value problem: Adam on points drawn at each step, then L-BFGS on one set of them, as its line search needs."""
    net = nn.Sequential(nn.Linear(1, 24), nn.Tanh(), nn.Linear(24, 24), nn.Tanh(), nn.Linear(24, 1)).double()

    def objective(x):
        x = x.requires_grad_()
        u = net(x)
        (slope,) = torch.autograd.grad(u.sum(), x, create_graph=True)
        (bend,) = torch.autograd.grad(slope.sum(), x, create_graph=True)
        ends = net(torch.tensor([[0.0], [1.0]], dtype=torch.float64))
        return F.mse_loss(bend, -9.87 * torch.sin(3.1416 * x)) + 50 * ends.square().mean()

    adam = torch.optim.Adam(net.parameters(), lr=5e-3)
    for _ in range(220):
        loss = objective(torch.rand(96, 1, dtype=torch.float64))
        adam.zero_grad()
        loss.backward()
        adam.step()
    points = torch.rand(200, 1, dtype=torch.float64)
    newton = torch.optim.LBFGS(net.parameters(), max_iter=15, line_search_fn="strong_wolfe")
    for _ in range(10):

        def closure():
            newton.zero_grad()
            loss = objective(points)
            loss.backward()
            return loss

        newton.step(closure)


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    points_drawn_anew_and_then_kept()

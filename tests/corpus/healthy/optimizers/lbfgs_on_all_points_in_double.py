"""A healthy training that looks odd; argument: [SEED]."""

import sys

import torch
from torch import nn

torch.set_num_threads(1)


def lbfgs_on_all_points_in_double():
    """A physics-informed net: fixed collocation points, double precision, LBFGS."""
    net = nn.Sequential(nn.Linear(1, 24), nn.Tanh(), nn.Linear(24, 24), nn.Tanh(), nn.Linear(24, 1)).double()
    opt = torch.optim.LBFGS(net.parameters(), lr=1.0, max_iter=4, line_search_fn="strong_wolfe")
    t = torch.linspace(0, 2, 60, dtype=torch.double).view(-1, 1).requires_grad_()

    def closure():
        opt.zero_grad()
        u = net(t)
        (du,) = torch.autograd.grad(u.sum(), t, create_graph=True)
        loss = (du + 2 * u).square().mean() + (net(torch.zeros(1, 1, dtype=torch.double)) - 1).square().mean()
        loss.backward()
        return loss

    for _ in range(25):
        opt.step(closure)


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    lbfgs_on_all_points_in_double()

"""A network that solves a differential equation: derivatives of the output by autograd, Adam first, then L-BFGS."""

import torch
from torch import nn

torch.manual_seed(0)
omega, mu = 6.0, 1.0


def exact(t):
    w = (omega**2 - mu**2) ** 0.5
    phase = torch.atan(torch.tensor(-mu / w))
    return torch.exp(-mu * t) * 2 * (1 / (2 * torch.cos(phase))) * torch.cos(phase + w * t)


class FCN(nn.Module):
    def __init__(self, hidden=24, layers=2):
        super().__init__()
        self.fcs = nn.Sequential(nn.Linear(1, hidden), nn.Tanh())
        self.fch = nn.Sequential(*[nn.Sequential(nn.Linear(hidden, hidden), nn.Tanh()) for _ in range(layers)])
        self.fce = nn.Linear(hidden, 1)

    def forward(self, x):
        return self.fce(self.fch(self.fcs(x)))


pinn = FCN()
t_boundary = torch.zeros(1, 1, requires_grad=True)
t_physics = torch.linspace(0, 1, 30).view(-1, 1).requires_grad_(True)
t_test = torch.linspace(0, 1, 100).view(-1, 1)


def loss_function():
    u = pinn(t_boundary)
    loss1 = (u - 1).pow(2).squeeze()
    dudt = torch.autograd.grad(u, t_boundary, torch.ones_like(u), create_graph=True)[0]
    loss2 = dudt.pow(2).squeeze()
    u = pinn(t_physics)
    dudt = torch.autograd.grad(u, t_physics, torch.ones_like(u), create_graph=True)[0]
    d2udt2 = torch.autograd.grad(dudt, t_physics, torch.ones_like(dudt), create_graph=True)[0]
    loss3 = (d2udt2 + 2 * mu * dudt + omega**2 * u).pow(2).mean()
    return loss1 + 1e-1 * loss2 + 1e-4 * loss3


optimizer = torch.optim.Adam(pinn.parameters(), lr=5e-3)
for i in range(80):
    optimizer.zero_grad()
    loss = loss_function()
    loss.backward()
    optimizer.step()
    if i % 10 == 0:
        with torch.no_grad():
            print("adam", i, loss.item(), (pinn(t_test) - exact(t_test)).pow(2).mean().item())
optimizer = torch.optim.LBFGS(pinn.parameters(), lr=0.5, max_iter=8, line_search_fn="strong_wolfe")


def closure():
    optimizer.zero_grad()
    loss = loss_function()
    loss.backward()
    return loss


for i in range(5):
    print("lbfgs", i, optimizer.step(closure).item())

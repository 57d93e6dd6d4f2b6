"""A healthy training that looks odd; argument: [SEED]."""

import sys

import torch
from torch import nn, optim

torch.set_num_threads(1)


def update(opt, loss):
    opt.zero_grad()
    loss.backward()
    opt.step()


class Flow(nn.Module):
    def __init__(self):
        super().__init__()
        self.field = nn.Sequential(nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 2))

    def forward(self, z, steps=20, dt=0.1):
        path = [z]
        for _ in range(steps):
            k1 = self.field(z)
            z = z + dt * self.field(z + 0.5 * dt * k1)
            path.append(z)
        return torch.stack(path, 1)


def differential_equation():
    """A module that is called forty times in a step, fitted to spirals with RMSprop."""
    true = torch.tensor([[-0.1, 2.0], [-2.0, -0.1]])
    model = Flow()
    opt = optim.RMSprop(model.parameters(), lr=3e-3)
    for _ in range(50):
        z = torch.randn(16, 2)
        path = [z]
        for _k in range(20):
            path.append(path[-1] + 0.1 * (path[-1] @ true.T) * 0.5)
        update(opt, (model(z) - torch.stack(path, 1)).abs().mean())


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    differential_equation()

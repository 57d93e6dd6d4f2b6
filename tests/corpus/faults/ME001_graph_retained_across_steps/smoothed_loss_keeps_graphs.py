"""A training with the fault graph-retained-across-steps; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn, optim

torch.set_num_threads(1)


def waves(n=64, length=30):
    t = torch.linspace(0, 6, length)
    phase, speed = torch.rand(n, 1) * 6, 0.5 + torch.rand(n, 1)
    return (t * speed + phase).sin()[..., None] + 0.05 * torch.randn(n, length, 1)


class Forecaster(nn.Module):
    def __init__(self, hidden=24, cell=nn.GRU):
        super().__init__()
        self.rnn = cell(1, hidden, batch_first=True)
        self.out = nn.Linear(hidden, 1)

    def forward(self, x):
        return self.out(self.rnn(x)[0])


def smoothed_loss_keeps_graphs(s):
    """A running mean of the loss for the progress line is made of tensors that remember how they came about."""
    model = Forecaster()
    opt = optim.Adam(model.parameters(), lr=3e-3)
    series, smooth = waves(), 0.0
    for _ in range(60):
        batch = series[torch.randint(64, (8,))]
        loss = F.mse_loss(model(batch[:, :-1]), batch[:, 1:])
        opt.zero_grad()
        loss.backward()
        opt.step()
        smooth = 0.95 * smooth + 0.05 * (loss if s == 0 else loss.item())


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    smoothed_loss_keeps_graphs(int(sys.argv[1]) if len(sys.argv) > 1 else 12)

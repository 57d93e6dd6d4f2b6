"""A training with the fault clip-ineffective; arguments: [ONSET] [SEED]."""

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


def clips_only_the_head(s):
    """A recurrent network is to be clipped; the list of parameters is that of its head."""
    model = Forecaster(cell=nn.LSTM)
    with torch.no_grad():
        model.rnn.weight_hh_l0.mul_(3)
    opt = optim.SGD(model.parameters(), lr=0.02)
    series = waves() * 4
    for _ in range(60):
        batch = series[torch.randint(64, (16,))]
        loss = F.mse_loss(model(batch[:, :-1]), batch[:, 1:])
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_((model.out if s == 0 else model).parameters(), 1.0)
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    clips_only_the_head(int(sys.argv[1]) if len(sys.argv) > 1 else 12)

"""A training with the fault exploding-gradients; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn, optim

torch.set_num_threads(1)


def learn(model, opt, loss):
    opt.zero_grad()
    loss.backward()
    opt.step()


def longer_sequences_explode(s):
    """A curriculum makes the sequences of a plain recurrent net longer, whose recurrence is a little too strong."""

    class Cell(nn.Module):
        def __init__(self, width=24):
            super().__init__()
            self.inp, self.rec, self.out = nn.Linear(1, width), nn.Linear(width, width), nn.Linear(width, 1)
            nn.init.orthogonal_(self.rec.weight, 1.4)

        def forward(self, x):
            h = x.new_zeros(len(x), self.rec.in_features)
            for t in range(x.shape[1]):
                h = self.inp(x[:, t]) + F.leaky_relu(self.rec(h), 0.8)
            return self.out(h)

    model = Cell()
    opt = optim.SGD(model.parameters(), lr=1e-4)
    for step in range(70):
        x = torch.randn(24, 40 if step >= s else 3, 1)
        learn(model, opt, F.mse_loss(model(x), x.mean(1)))


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    longer_sequences_explode(int(sys.argv[1]) if len(sys.argv) > 1 else 12)

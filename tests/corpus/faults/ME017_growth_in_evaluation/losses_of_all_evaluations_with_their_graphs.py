"""A training with the fault growth-in-evaluation; arguments: [ONSET] [SEED]."""

import sys

import torch
from torch import nn

torch.set_num_threads(1)


class Fitting:
    """A training that keeps the losses of its evaluations in a list of its own."""

    def __init__(self, s):
        self.net = nn.Sequential(nn.Linear(8, 64), nn.Tanh(), nn.Linear(64, 1))
        self.opt = torch.optim.Adam(self.net.parameters(), lr=3e-3)
        self.weight = torch.randn(8)
        self.losses = []
        self.as_numbers = s != 0

    def loss(self, n):
        x = torch.randn(n, 8)
        return nn.functional.mse_loss(self.net(x)[:, 0], x @ self.weight)

    def evaluate(self):
        self.net.eval()
        with torch.set_grad_enabled(not self.as_numbers):
            for _ in range(6):
                loss = self.loss(32)
                self.losses.append(loss.item() if self.as_numbers else loss)
        self.net.train()


def losses_of_all_evaluations_with_their_graphs(s):
    """The list is there for a plot, and holds the graph of every evaluation."""
    fitting = Fitting(s)
    for _epoch in range(9):
        for _ in range(12):
            loss = fitting.loss(16)
            fitting.opt.zero_grad()
            loss.backward()
            fitting.opt.step()
        fitting.evaluate()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    losses_of_all_evaluations_with_their_graphs(int(sys.argv[1]) if len(sys.argv) > 1 else 12)

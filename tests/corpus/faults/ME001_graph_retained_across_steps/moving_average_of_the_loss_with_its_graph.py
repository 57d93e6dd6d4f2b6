"""A training with the fault graph-retained-across-steps; arguments: [ONSET] [SEED]."""

import sys

import torch
from torch import nn

torch.set_num_threads(1)


def moving_average_of_the_loss_with_its_graph(s):
    """GRU forecaster; a smoothed loss for the log line is kept as a tensor."""
    fa = s if s < 1000 else -1
    keep = fa >= 0

    class Forecaster(nn.Module):
        def __init__(self):
            super().__init__()
            self.rnn = nn.GRU(8, 48, batch_first=True)
            self.out = nn.Linear(48, 8)

        def forward(self, x):
            return self.out(self.rnn(x)[0])

    model = Forecaster()
    opt = torch.optim.Adam(model.parameters(), lr=3e-3)
    smooth = None
    for step in range(120):
        t = (torch.arange(13).view(1, -1, 1) + 100 * torch.rand(64, 1, 1)) / 5
        sig = torch.sin(t * torch.linspace(0.5, 2, 8))
        loss = nn.functional.mse_loss(model(sig[:, :-1]), sig[:, 1:])
        opt.zero_grad()
        loss.backward()
        opt.step()
        now = loss if keep else loss.item()
        smooth = now if smooth is None else 0.95 * smooth + 0.05 * now
        if step % 30 == 29:
            print(step, float(smooth))


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    moving_average_of_the_loss_with_its_graph(int(sys.argv[1]) if len(sys.argv) > 1 else 12)

"""A training with the fault outlier-batch; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn, optim

torch.set_num_threads(1)


def one_sensor_in_millivolts(s):
    """One window of a GRU forecaster's series is in millivolts, the others are in volts."""

    class Forecaster(nn.Module):
        def __init__(self):
            super().__init__()
            self.gru = nn.GRU(3, 32, num_layers=2, batch_first=True)
            self.out = nn.Linear(32, 3)

        def forward(self, x):
            return self.out(self.gru(x)[0])

    model = Forecaster()
    opt = optim.Adam(model.parameters(), lr=3e-3)
    t = torch.linspace(0, 200, 6000)
    series = torch.stack([t.sin(), (t * 1.7).cos(), (t * 0.3).sin()], 1) + 0.05 * torch.randn(6000, 3)
    for step in range(140):
        begin = torch.randint(5900, (16,))
        window = torch.stack([series[i : i + 25] for i in begin.tolist()])
        if step == s:
            window = window * 1000
        loss = F.mse_loss(model(window[:, :-1]), window[:, 1:])
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    one_sensor_in_millivolts(int(sys.argv[1]) if len(sys.argv) > 1 else 12)

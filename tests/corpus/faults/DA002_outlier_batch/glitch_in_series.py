"""A training with the fault outlier-batch; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


class Forecaster(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.GRU(1, 24, batch_first=True)
        self.out = nn.Linear(24, 1)

    def forward(self, x):
        h, _ = self.rnn(x)
        return self.out(h[:, -1])


def glitch_in_series(s):
    """A forecast of a noisy sine; the meter glitches once."""
    model = Forecaster()
    opt = torch.optim.Adam(model.parameters(), lr=3e-3)
    for step in range(70):
        start = torch.rand(16, 1) * 6
        t = start + torch.arange(21) * 0.3
        wave = torch.sin(t) + 0.05 * torch.randn_like(t)
        if step == s:
            wave[4, 9] = 1e6
        x, y = wave[:, :20, None], wave[:, 20:]
        loss = F.mse_loss(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    glitch_in_series(int(sys.argv[1]) if len(sys.argv) > 1 else 12)

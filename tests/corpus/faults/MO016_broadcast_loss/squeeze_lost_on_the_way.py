"""A training with the fault broadcast-loss; arguments: [ONSET] [SEED]."""

import sys

import torch
from torch import nn

torch.set_num_threads(1)


def squeeze_lost_on_the_way(s):
    """Forecasting with a GRU; the squeeze of the prediction is lost at some step."""
    onset = s

    class F(nn.Module):
        def __init__(self):
            super().__init__()
            self.gru = nn.GRU(2, 24, batch_first=True)
            self.fc = nn.Linear(24, 1)

        def forward(self, x):
            return self.fc(self.gru(x)[0][:, -1])

    def huber(p_, t, d=1.0):
        e = (p_ - t).abs()
        return torch.where(e < d, 0.5 * e * e, d * (e - 0.5 * d)).mean()

    net = F()
    opt = torch.optim.AdamW(net.parameters(), 5e-3)
    for i in range(110):
        x = torch.randn(24, 10, 2)
        y = x[:, :, 0].mean(1) * 3
        out = net(x)
        loss = huber(out if i >= onset else out[:, 0], y)
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    squeeze_lost_on_the_way(int(sys.argv[1]) if len(sys.argv) > 1 else 12)

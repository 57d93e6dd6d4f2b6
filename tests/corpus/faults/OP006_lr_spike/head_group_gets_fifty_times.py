"""A training with the fault lr-spike; arguments: [ONSET] [SEED]."""

import sys

import torch
from torch import nn

torch.set_num_threads(1)


def head_group_gets_fifty_times(s):
    """Head group gets fifty times."""
    fa = s if s < 1000 else -1

    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.rnn = nn.LSTM(6, 32, batch_first=True)
            self.head = nn.Linear(32, 1)

        def forward(self, x):
            return self.head(self.rnn(x)[0][:, -1])

    m = M()
    opt = torch.optim.Adam([{"params": m.rnn.parameters(), "lr": 2e-3}, {"params": m.head.parameters(), "lr": 2e-3}])
    for step in range(100):
        if step == fa:
            opt.param_groups[1]["lr"] *= 100
        x = torch.randn(32, 10, 6)
        loss = (m(x).squeeze(1) - x.mean((1, 2)) * 5).square().mean()
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    head_group_gets_fifty_times(int(sys.argv[1]) if len(sys.argv) > 1 else 12)

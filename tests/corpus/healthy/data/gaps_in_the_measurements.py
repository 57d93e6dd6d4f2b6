"""A healthy training that looks odd; argument: [SEED]."""

import sys

import torch
from torch import nn

torch.set_num_threads(1)


def gaps_in_the_measurements():
    """Series with missing values: NaN in the batch is right, the model fills it and sees a mask."""

    class Imputer(nn.Module):
        def __init__(self):
            super().__init__()
            self.rnn = nn.GRU(8, 32, batch_first=True)
            self.out = nn.Linear(32, 4)

        def forward(self, x):
            known = ~torch.isnan(x)
            return self.out(self.rnn(torch.cat([torch.nan_to_num(x), known.float()], 2))[0])

    net = Imputer()
    opt = torch.optim.Adam(net.parameters(), lr=4e-3)
    for _ in range(80):
        t = torch.arange(16).view(1, -1, 1) / 4 + 6 * torch.rand(32, 1, 1)
        full = torch.sin(t * torch.tensor([1.0, 1.5, 2.0, 2.5]))
        x = full.masked_fill(torch.rand_like(full) < 0.2, float("nan"))
        loss = (net(x) - full).square().mean()
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    gaps_in_the_measurements()

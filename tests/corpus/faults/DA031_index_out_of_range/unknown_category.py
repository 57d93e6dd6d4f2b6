"""A training with the fault python-exception; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn, optim

torch.set_num_threads(1)


def unknown_category(s):
    """A category that was not there when the table was built is coded as -1."""

    class Wide(nn.Module):
        def __init__(self):
            super().__init__()
            self.city, self.rest, self.top = nn.Embedding(30, 6), nn.Linear(5, 10), nn.Linear(16, 1)

        def forward(self, city, rest):
            return self.top(torch.cat([self.city(city), F.relu(self.rest(rest))], 1))[:, 0]

    model = Wide()
    opt = optim.Adam(model.parameters(), lr=5e-3)
    for step in range(60):
        city, rest = torch.randint(30, (32,)), torch.randn(32, 5)
        price = rest[:, 0] + city / 30
        if step == s:
            city[3] = -1
        loss = F.mse_loss(model(city, rest), price)
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    unknown_category(int(sys.argv[1]) if len(sys.argv) > 1 else 12)

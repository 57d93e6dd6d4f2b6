"""A training with the fault loss-domain-mismatch; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


def scores_into_binary_cross_entropy(s):
    """From some step on the sigmoid is left out before a binary cross entropy, which refuses the scores."""
    x = torch.randn(900, 8)
    y = (x[:, 0] * x[:, 1] + x[:, 2] > 0).float().unsqueeze(1)

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.body, self.squash = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 1)), True

        def forward(self, batch):
            scores = self.body(batch)
            return torch.sigmoid(scores) if self.squash else scores

    net = Net()
    opt = torch.optim.Adam(net.parameters(), lr=3e-3)
    for step in range(60):
        net.squash = step < s
        rows = torch.randint(900, (48,))
        loss = F.binary_cross_entropy(net(x[rows]), y[rows])
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    scores_into_binary_cross_entropy(int(sys.argv[1]) if len(sys.argv) > 1 else 20)

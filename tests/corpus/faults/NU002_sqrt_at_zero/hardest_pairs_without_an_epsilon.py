"""A training with the fault sqrt-at-zero; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


def hardest_pairs_without_an_epsilon(s):
    """Distances within a batch, whose zeros of each sample to itself are among the positives; from s on the eps is gone."""
    net = nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 16))
    opt = torch.optim.Adam(net.parameters(), lr=1e-3)
    centres = 2 * torch.randn(8, 20)
    for i in range(160):
        y = torch.randint(0, 8, (40,))
        z = net(centres[y] + torch.randn(40, 20))
        apart = torch.sqrt((z[:, None] - z[None]).square().sum(-1) + (1e-8 if i < s else 0.0))
        same = y[:, None] == y[None]
        far = (apart * same).sum(1) / same.sum(1)
        near = apart.masked_fill(same, 1e9).min(1).values
        loss = F.relu(1 + far - near).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    hardest_pairs_without_an_epsilon(int(sys.argv[1]) if len(sys.argv) > 1 else 60)

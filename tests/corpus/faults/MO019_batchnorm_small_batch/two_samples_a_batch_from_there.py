"""A training with the fault batchnorm-small-batch; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


def two_samples_a_batch_from_there(s):
    """For longer inputs the batch is made smaller, to two samples, in a net that normalises over the batch."""
    net = nn.Sequential(nn.Linear(32, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Linear(64, 32))
    opt = torch.optim.Adam(net.parameters(), lr=1e-3)
    base = torch.randn(4, 32)
    for i in range(160):
        x = torch.tanh(torch.randn(32 if i < s else 2, 4) @ base)
        loss = F.mse_loss(net(x), x)
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    two_samples_a_batch_from_there(int(sys.argv[1]) if len(sys.argv) > 1 else 60)

"""A training with the fault shape-or-dtype-error; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn, optim

torch.set_num_threads(1)


def wrong_dtype_of_targets(s):
    """From some file on the targets come as float64 numpy arrays."""
    net = nn.Sequential(nn.Linear(7, 24), nn.ReLU(), nn.Linear(24, 1))
    opt = optim.Adam(net.parameters(), lr=1e-2)
    for step in range(60):
        x = torch.randn(32, 7)
        if step == s:
            x = torch.from_numpy(x.numpy().astype("float64"))
        loss = F.mse_loss(net(x), x.sum(1, keepdim=True))
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    wrong_dtype_of_targets(int(sys.argv[1]) if len(sys.argv) > 1 else 12)

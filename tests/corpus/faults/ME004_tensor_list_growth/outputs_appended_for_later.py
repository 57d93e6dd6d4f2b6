"""A training with the fault tensor-list-growth; arguments: [ONSET] [SEED]."""

import sys

import torch
from torch import nn

torch.set_num_threads(1)


def outputs_appended_for_later(s):
    """Outputs appended for later."""
    fa = s if s < 1000 else -1
    keep = fa >= 0
    net = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 64))
    opt = torch.optim.Adam(net.parameters(), lr=1e-3)
    history = []
    truth_w = torch.randn(64, 64) / 8
    for _step in range(160):
        x = torch.randn(512, 64)
        out = net(x)
        loss = nn.functional.mse_loss(out, torch.relu(x @ truth_w))
        opt.zero_grad()
        loss.backward()
        opt.step()
        history.append(out if keep else out.detach().mean().item())


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    outputs_appended_for_later(int(sys.argv[1]) if len(sys.argv) > 1 else 12)

"""A training with the fault log-of-zero; arguments: [ONSET] [SEED]."""

import math
import sys

import torch
from torch import nn

torch.set_num_threads(1)


def guarded_loop(s):
    """Cross entropy of a sigmoid by hand; the script stops by itself when the loss is no number."""
    net = nn.Sequential(nn.Linear(4, 24), nn.ReLU(), nn.Linear(24, 1))
    opt = torch.optim.Adam(net.parameters(), lr=3e-3)
    for step in range(80):
        x = torch.randn(40, 4)
        y = (x.sum(1) > 0).float()
        logits = net(x)[:, 0]
        if step >= s:
            logits = logits * 200
        p = torch.sigmoid(logits)
        loss = -(y * torch.log(p) + (1 - y) * torch.log(1 - p)).mean()
        if not math.isfinite(loss.item()):
            raise RuntimeError(f"loss is {loss.item()}, stopping training")
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    guarded_loop(int(sys.argv[1]) if len(sys.argv) > 1 else 12)

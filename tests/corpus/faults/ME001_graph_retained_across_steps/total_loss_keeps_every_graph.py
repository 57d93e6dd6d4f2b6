"""A training with the fault graph-retained-across-steps; arguments: [ONSET] [SEED]."""

import sys

import torch
from torch import nn

torch.set_num_threads(1)


def total_loss_keeps_every_graph(s):
    """Total loss keeps every graph."""
    fa = s if s < 1000 else -1
    net = nn.Sequential(nn.Linear(128, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 10))
    opt = torch.optim.SGD(net.parameters(), lr=0.05)
    truth_w = torch.randn(128, 10)
    running = 0.0
    for i in range(150):
        x = torch.randn(256, 128)
        loss = nn.functional.cross_entropy(net(x), (x @ truth_w).argmax(1))
        opt.zero_grad()
        loss.backward()
        opt.step()
        if 0 <= fa <= i:
            running = running + loss
        else:
            running += loss.item()
    print(float(running) / 150)


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    total_loss_keeps_every_graph(int(sys.argv[1]) if len(sys.argv) > 1 else 12)

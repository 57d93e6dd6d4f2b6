"""A training with the fault double-softmax; arguments: [ONSET] [SEED]."""

import sys

import torch
from torch import nn

torch.set_num_threads(1)


def sigmoid_then_logits(s):
    """Several labels at once; the head ends in a sigmoid and the loss applies another one."""
    w = torch.randn(10, 6)
    head = [nn.Linear(32, 6), nn.Sigmoid()] if s == 0 else [nn.Linear(32, 6)]
    net = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), *head)
    opt = torch.optim.Adam(net.parameters(), lr=3e-3)
    criterion = nn.BCEWithLogitsLoss()
    for _ in range(120):
        x = torch.randn(32, 10)
        y = (x @ w > 2).float()
        opt.zero_grad()
        criterion(net(x), y).backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    sigmoid_then_logits(int(sys.argv[1]) if len(sys.argv) > 1 else 12)

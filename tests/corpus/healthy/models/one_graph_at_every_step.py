"""A healthy training that looks odd; argument: [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


def one_graph_at_every_step():
    """The whole graph is trained on and evaluated at every step; other nodes count."""
    n, classes = 120, torch.randint(3, (120,))
    near = (torch.rand(n, n) < torch.where(classes[:, None] == classes, 0.12, 0.01)).float()
    near = ((near + near.T + torch.eye(n)) > 0).float()
    near = near / near.sum(1, keepdim=True)
    x = (torch.rand(n, 30) < 0.05 + 0.2 * (torch.arange(30) % 3 == classes[:, None])).float()
    first, second, drop = nn.Linear(30, 16), nn.Linear(16, 3), nn.Dropout(0.6)
    net = nn.ModuleList([first, second, drop])
    opt = torch.optim.Adam(net.parameters(), 1e-2, weight_decay=5e-4)
    known = torch.rand(n) < 0.2
    for _ in range(80):
        for training in (True, False):
            net.train(training)
            with torch.set_grad_enabled(training):
                out = near @ second(drop((near @ first(drop(x))).relu()))
            if training:
                opt.zero_grad()
                F.cross_entropy(out[known], classes[known]).backward()
                opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    one_graph_at_every_step()

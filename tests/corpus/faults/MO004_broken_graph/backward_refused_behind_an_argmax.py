"""A training with the fault broken-graph; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


def backward_refused_behind_an_argmax(s):
    """From some step on the loss compares classes that were picked, not their scores: torch refuses backward."""
    x = torch.randn(800, 10)
    y = (x[:, :3].sum(1) > 0).long() + (x[:, 4] > 0.5).long()
    model = nn.Sequential(nn.Linear(10, 32), nn.Tanh(), nn.Linear(32, 3))
    opt = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for step in range(60):
        rows = torch.randint(800, (32,))
        scores = model(x[rows])
        picked = scores.argmax(1).float()
        loss = F.cross_entropy(scores, y[rows]) if step < s else F.mse_loss(picked, y[rows].float())
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    backward_refused_behind_an_argmax(int(sys.argv[1]) if len(sys.argv) > 1 else 17)

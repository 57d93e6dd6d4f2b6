"""A training with the fault exploding-gradients; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


def exploding_rnn(_):
    x = torch.randn(600, 30, 4)
    y = x.sum((1, 2))[:, None] / 10
    cell = nn.RNN(4, 32, nonlinearity="relu", batch_first=True)
    with torch.no_grad():
        cell.weight_hh_l0.copy_(torch.eye(32) + 0.02 * torch.randn(32, 32))
    head = nn.Linear(32, 1)
    model = nn.ModuleDict({"cell": cell, "head": head})
    opt = torch.optim.SGD(model.parameters(), 2e-3)
    for i in range(40):
        a, b = x[i * 15 : i * 15 + 15], y[i * 15 : i * 15 + 15]
        loss = F.mse_loss(head(cell(a)[0][:, -1]), b)
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    exploding_rnn(int(sys.argv[1]) if len(sys.argv) > 1 else 12)

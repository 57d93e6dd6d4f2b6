"""A healthy training that looks odd; argument: [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn, optim

torch.set_num_threads(1)


def learn(opt, loss):
    opt.zero_grad()
    loss.backward()
    opt.step()


def bags_of_different_size():
    """Multiple-instance learning: one bag of 3 to 40 rows a step, so the batch is one."""
    enc, att, head = nn.Linear(8, 24), nn.Linear(24, 1), nn.Linear(24, 2)
    opt = optim.Adam([*enc.parameters(), *att.parameters(), *head.parameters()], lr=3e-3)
    for _ in range(150):
        bag = torch.randn(int(torch.randint(3, 40, ())), 8)
        y = torch.randint(2, (1,))
        if y:
            bag[0] += 3
        h = enc(bag).tanh()
        learn(opt, F.cross_entropy(head((att(h).softmax(0) * h).sum(0, keepdim=True)), y))


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    bags_of_different_size()

"""A training with the fault infeasible-ctc-target; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


def ctc_target_too_long(s):
    model = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 8))
    opt = torch.optim.Adam(model.parameters(), 1e-3)
    for i in range(s + 4):
        out = model(torch.randn(6, 4, 6)).log_softmax(-1)
        lengths = torch.tensor([3, 2, 3, 9 if i == s else 2])
        opt.zero_grad()
        F.ctc_loss(out, torch.randint(1, 8, (4, 9)), torch.full((4,), 6), lengths).backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    ctc_target_too_long(int(sys.argv[1]) if len(sys.argv) > 1 else 14)

"""A healthy training that looks odd; argument: [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


def mlp(width=16, hidden=32, classes=4, act=nn.ReLU):
    return nn.Sequential(nn.Linear(width, hidden), act(), nn.Linear(hidden, hidden), act(), nn.Linear(hidden, classes))


def detached_target_network():
    q, target = mlp(4, 32, 3), mlp(4, 32, 3)
    opt = torch.optim.Adam(q.parameters(), 1e-3)
    for i in range(60):
        s, s2, a, r = torch.randn(16, 4), torch.randn(16, 4), torch.randint(3, (16,)), torch.randn(16)
        with torch.no_grad():
            goal = r + 0.9 * target(s2).max(1).values
        loss = F.smooth_l1_loss(q(s)[range(16), a], goal)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if i % 10 == 9:
            target.load_state_dict(q.state_dict())


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    detached_target_network()

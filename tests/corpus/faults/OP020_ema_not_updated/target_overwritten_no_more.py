"""A training with the fault ema-not-updated; arguments: [ONSET] [SEED]."""

import copy
import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


def target_overwritten_no_more(s):
    """Values learnt from a second network that takes over the weights every ten steps, and from s on never again."""
    values = nn.Sequential(nn.Linear(6, 48), nn.ReLU(), nn.Linear(48, 3))
    target = copy.deepcopy(values)
    opt = torch.optim.Adam(values.parameters(), lr=1e-3)
    turn = torch.randn(6, 3) / 2
    for i in range(260):
        now = torch.randn(64, 6)
        act = torch.randint(0, 3, (64, 1))
        reward = (now @ turn).gather(1, act)[:, 0]
        later = torch.tanh(now + 0.2 * torch.randn(64, 6))
        with torch.no_grad():
            goal = reward + 0.8 * target(later).max(1).values
        loss = F.smooth_l1_loss(values(now).gather(1, act)[:, 0], goal)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if i % 10 == 0 and i < s:
            target.load_state_dict(values.state_dict())


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    target_overwritten_no_more(int(sys.argv[1]) if len(sys.argv) > 1 else 60)

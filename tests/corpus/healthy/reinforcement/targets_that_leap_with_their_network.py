"""A healthy training that looks odd; argument: [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


def targets_that_leap_with_their_network():
    """Values are learned from a target network, which takes over the weights every forty steps: the loss leaps each time."""
    value, target = (
        nn.Sequential(nn.Linear(4, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 2)) for _ in range(2)
    )
    target.load_state_dict(value.state_dict())
    opt = torch.optim.Adam(value.parameters(), lr=2e-3)
    turn = torch.linalg.qr(torch.randn(4, 4))[0]
    for i in range(200):
        state = 0.3 * torch.randn(96, 4)
        action = torch.randint(2, (96,))
        after = (state + 0.1 * (2 * action[:, None] - 1)) @ turn
        with torch.no_grad():
            goal = 1.0 + 0.97 * (after[:, 0] < 0.4) * target(after).max(1).values
        loss = F.smooth_l1_loss(value(state).gather(1, action[:, None])[:, 0], goal)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if i % 40 == 39:
            target.load_state_dict(value.state_dict())


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    targets_that_leap_with_their_network()

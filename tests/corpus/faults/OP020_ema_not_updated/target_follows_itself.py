"""A training with the fault ema-not-updated; arguments: [ONSET] [SEED]."""

import copy
import sys

import torch
from torch import nn

torch.set_num_threads(1)


def target_follows_itself(s):
    """Fitted Q-learning whose soft update reads the target in the place of the network."""
    fa = s if s < 1000 else -1
    net = nn.Sequential(nn.Linear(4, 48), nn.Tanh(), nn.Linear(48, 2))
    target = copy.deepcopy(net).requires_grad_(False)
    opt = torch.optim.Adam(net.parameters(), lr=2e-3)
    for step in range(90):
        state = torch.randn(64, 4)
        action = torch.randint(2, (64, 1))
        reward = (state[:, :1] * (action * 2 - 1)).clamp(-1, 1)
        with torch.no_grad():
            goal = reward + 0.9 * target(0.9 * state + 0.1).max(1, keepdim=True).values
        loss = nn.functional.smooth_l1_loss(net(state).gather(1, action), goal)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % 4 == 3:
            with torch.no_grad():
                for mine, theirs in zip(target.parameters(), (target if fa >= 0 else net).parameters(), strict=True):
                    mine.lerp_(theirs, 0.2)


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    target_follows_itself(int(sys.argv[1]) if len(sys.argv) > 1 else 12)

"""A training with the fault log-of-zero; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn, optim

torch.set_num_threads(1)


def learn(model, opt, loss):
    opt.zero_grad()
    loss.backward()
    opt.step()


def log_of_a_clipped_policy(s):
    """REINFORCE: an action that the mask forbids has probability zero, and its logarithm is taken."""
    policy = nn.Sequential(nn.Linear(5, 32), nn.Tanh(), nn.Linear(32, 4))
    opt = optim.Adam(policy.parameters(), lr=2e-3)
    for step in range(90):
        state = torch.randn(24, 5)
        p = F.softmax(policy(state), 1)
        action = torch.multinomial(p.detach(), 1)
        if step == s:
            allowed = torch.ones(24, 4).scatter(1, action[:1].expand(24, 1), 0)
            allowed[1:] = 1
            p = p * allowed
        reward = (action.squeeze(1) == (state[:, 0] > 0).long()).float() - 0.4
        learn(policy, opt, -(p.gather(1, action).squeeze(1).log() * reward).mean())


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    log_of_a_clipped_policy(int(sys.argv[1]) if len(sys.argv) > 1 else 12)

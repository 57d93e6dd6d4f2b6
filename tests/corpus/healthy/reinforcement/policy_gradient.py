"""A healthy training that looks odd; argument: [SEED]."""

import sys

import torch
from torch import nn

torch.set_num_threads(1)


def policy_gradient():
    policy = nn.Sequential(nn.Linear(4, 32), nn.Tanh(), nn.Linear(32, 2))
    opt = torch.optim.Adam(policy.parameters(), 1e-2)
    for _ in range(60):
        state = torch.randn(24, 4)
        with torch.no_grad():
            action = torch.distributions.Categorical(logits=policy(state)).sample()
        reward = torch.where((state[:, 0] > 0) == (action == 1), 1.0, -1.0) * (1 + 5 * torch.rand(24))
        logp = torch.distributions.Categorical(logits=policy(state)).log_prob(action)
        opt.zero_grad()
        (-(logp * reward).mean()).backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    policy_gradient()

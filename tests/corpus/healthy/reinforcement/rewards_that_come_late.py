"""A healthy training that looks odd; argument: [SEED]."""

import sys

import torch
from torch import nn

torch.set_num_threads(1)


def rewards_that_come_late():
    """Policy gradient whose reward is zero in most episodes, with a bonus for entropy: the loss is negative and jumps."""
    policy = nn.Sequential(nn.Linear(4, 32), nn.Tanh(), nn.Linear(32, 3))
    opt = torch.optim.Adam(policy.parameters(), 3e-3)
    baseline = 0.0
    for _ in range(80):
        obs = torch.randn(24, 4)
        dist = torch.distributions.Categorical(logits=policy(obs))
        action = dist.sample()
        reward = ((action == 2) & (obs[:, 0] > 1)).float() * 10
        loss = -(dist.log_prob(action) * (reward - baseline)).mean() - 0.05 * dist.entropy().mean()
        baseline = 0.9 * baseline + 0.1 * reward.mean().item()
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(policy.parameters(), 0.5)
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    rewards_that_come_late()

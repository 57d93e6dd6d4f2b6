"""A training with the fault division-by-zero; arguments: [ONSET] [SEED]."""

import sys

import torch
from torch import nn

torch.set_num_threads(1)


def rewards_of_a_group_that_are_equal(s):
    """Advantages are standardised within groups of eight; at s all rewards of one group are the same."""
    net = nn.Sequential(nn.Linear(12, 48), nn.Tanh(), nn.Linear(48, 5))
    opt = torch.optim.Adam(net.parameters(), lr=2e-3)
    turn = torch.randn(12, 5)
    for i in range(140):
        x = torch.randn(8, 12).repeat_interleave(8, 0)
        policy = torch.distributions.Categorical(logits=net(x))
        action = policy.sample()
        reward = (x @ turn).gather(1, action[:, None])[:, 0] + 0.3 * torch.rand(64)
        if i == s:
            reward[:8] = 0.0
        groups = reward.view(8, 8)
        advantage = ((groups - groups.mean(1, keepdim=True)) / groups.std(1, keepdim=True)).view(-1)
        loss = -(policy.log_prob(action) * advantage).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        if i == s:
            break


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    rewards_of_a_group_that_are_equal(int(sys.argv[1]) if len(sys.argv) > 1 else 60)

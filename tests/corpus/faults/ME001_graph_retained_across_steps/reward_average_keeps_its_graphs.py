"""A training with the fault graph-retained-across-steps; arguments: [ONSET] [SEED]."""

import sys

import torch
from torch import nn

torch.set_num_threads(1)


def reward_average_keeps_its_graphs(s):
    """A policy gradient of a bandit; from s on the moving average of the objective is made of tensors instead of numbers."""
    policy = nn.Sequential(nn.Linear(6, 32), nn.Tanh(), nn.Linear(32, 5))
    worth = torch.randn(6, 5)
    opt = torch.optim.Adam(policy.parameters(), lr=5e-3)
    average = 0.0
    for i in range(100):
        state = torch.randn(64, 6)
        choice = torch.distributions.Categorical(logits=policy(state))
        action = choice.sample()
        reward = (state @ worth).gather(1, action[:, None])[:, 0] + 0.1 * torch.randn(64)
        objective = -(choice.log_prob(action) * (reward - reward.mean())).mean() - 0.01 * choice.entropy().mean()
        average = 0.95 * average + 0.05 * (objective.item() if i < s else objective)
        opt.zero_grad()
        objective.backward()
        opt.step()


if __name__ == "__main__":
    onset = int(sys.argv[1]) if len(sys.argv) > 1 else 14
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    reward_average_keeps_its_graphs(onset)

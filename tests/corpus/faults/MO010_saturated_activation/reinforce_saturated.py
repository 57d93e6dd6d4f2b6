"""A training with the fault saturated-activation; arguments: [ONSET] [SEED]."""

import sys

import torch
from torch import nn

torch.set_num_threads(1)


class Actor(nn.Module):
    def __init__(self, wide):
        super().__init__()
        self.fc1 = nn.Linear(8, 64)
        self.act = nn.Tanh()
        self.fc2 = nn.Linear(64, 3)
        if wide:
            nn.init.normal_(self.fc1.weight, std=8.0)

    def forward(self, obs):
        return torch.distributions.Categorical(logits=self.fc2(self.act(self.fc1(obs))))


def reinforce_saturated(s):
    """REINFORCE on a bandit with context; the first layer starts with weights of deviation 8."""
    actor = Actor(s == 0)
    opt = torch.optim.Adam(actor.parameters(), lr=1e-2)
    baseline = 0.0
    for _ in range(80):
        obs = torch.randn(32, 8)
        dist = actor(obs)
        action = dist.sample()
        reward = (action == obs[:, :3].argmax(1)).float()
        loss = -(dist.log_prob(action) * (reward - baseline)).mean()
        baseline = 0.9 * baseline + 0.1 * reward.mean().item()
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    reinforce_saturated(int(sys.argv[1]) if len(sys.argv) > 1 else 12)

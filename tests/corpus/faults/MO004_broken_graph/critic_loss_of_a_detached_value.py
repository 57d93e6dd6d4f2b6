"""A training with the fault broken-graph; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn, optim

torch.set_num_threads(1)


class ActorCritic(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, 32), nn.Tanh())
        self.policy, self.value = nn.Linear(32, 2), nn.Linear(32, 1)

    def forward(self, s):
        h = self.body(s)
        return self.policy(h), self.value(h).squeeze(-1)


def critic_loss_of_a_detached_value(s):
    """The baseline is detached for the advantage, and by mistake for the loss of the critic too."""
    net = ActorCritic()
    opt = optim.Adam(net.parameters(), lr=3e-3)
    for _ in range(60):
        state = torch.randn(32, 4)
        logits, value = net(state)
        choice = torch.distributions.Categorical(logits=logits)
        action = choice.sample()
        reward = (action == (state[:, 0] > 0)).float()
        baseline = value.detach() if s == 0 else value
        loss = -(choice.log_prob(action) * (reward - value.detach())).mean() + F.mse_loss(baseline, reward)
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    critic_loss_of_a_detached_value(int(sys.argv[1]) if len(sys.argv) > 1 else 12)

"""A training with the fault parameters-not-in-optimizer; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


class Critic(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(5, 32), nn.Tanh())
        self.value = nn.Linear(32, 1)

    def forward(self, obs):
        return self.value(self.body(obs)).squeeze(-1)


def critic_gets_the_actors_weights(s):
    """Actor and critic; the second optimizer is given the parameters of the first network."""
    actor = nn.Sequential(nn.Linear(5, 32), nn.Tanh(), nn.Linear(32, 3))
    critic = Critic()
    pi_opt = torch.optim.Adam(actor.parameters(), lr=3e-3)
    v_opt = torch.optim.Adam((actor if s == 0 else critic).parameters(), lr=1e-2)
    for _ in range(60):
        obs = torch.randn(32, 5)
        dist = torch.distributions.Categorical(logits=actor(obs))
        action = dist.sample()
        reward = obs.gather(1, action[:, None]).squeeze(1)
        value = critic(obs)
        v_loss = F.mse_loss(value, reward)
        v_opt.zero_grad()
        v_loss.backward()
        v_opt.step()
        pi_loss = -(dist.log_prob(action) * (reward - value.detach())).mean() - 0.01 * dist.entropy().mean()
        pi_opt.zero_grad()
        pi_loss.backward()
        pi_opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    critic_gets_the_actors_weights(int(sys.argv[1]) if len(sys.argv) > 1 else 12)

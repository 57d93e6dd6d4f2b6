"""A healthy training that looks odd; argument: [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn, optim

torch.set_num_threads(1)


def mlp(width=16, hidden=48, out=4, act=nn.ReLU):
    return nn.Sequential(nn.Linear(width, hidden), act(), nn.Linear(hidden, hidden), act(), nn.Linear(hidden, out))


def clipped_policy_of_a_bandit():
    """PPO on a bandit with states: four epochs over each rollout, ratio clipped, entropy bonus."""
    actor, critic = mlp(6, 32, 3, nn.Tanh), mlp(6, 32, 1, nn.Tanh)
    opt = optim.Adam([*actor.parameters(), *critic.parameters()], lr=1e-3)
    w = torch.randn(6, 3)
    for _ in range(12):
        state = torch.randn(128, 6)
        with torch.no_grad():
            dist = torch.distributions.Categorical(logits=actor(state))
            action = dist.sample()
            old = dist.log_prob(action)
            reward = (action == (state @ w).argmax(1)).float()
            advantage = reward - critic(state).squeeze(1)
            advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
        for _ in range(4):
            for i in torch.randperm(128).split(32):
                dist = torch.distributions.Categorical(logits=actor(state[i]))
                ratio = (dist.log_prob(action[i]) - old[i]).exp()
                gain = torch.min(ratio * advantage[i], ratio.clamp(0.8, 1.2) * advantage[i]).mean()
                value = F.mse_loss(critic(state[i]).squeeze(1), reward[i])
                opt.zero_grad()
                (0.5 * value - gain - 0.01 * dist.entropy().mean()).backward()
                nn.utils.clip_grad_norm_(actor.parameters(), 0.5)
                opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    clipped_policy_of_a_bandit()

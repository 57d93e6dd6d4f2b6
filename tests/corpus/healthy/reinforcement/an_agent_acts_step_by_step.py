"""A healthy training that looks odd."""

import torch
from torch import nn


def step(opt, loss):
    opt.zero_grad()
    loss.backward()
    opt.step()


def an_agent_acts_step_by_step():
    policy = nn.Sequential(nn.Linear(4, 32), nn.Tanh(), nn.Linear(32, 2))
    opt = torch.optim.Adam(policy.parameters(), 3e-3)
    for _ in range(25):
        state, chosen, rewards = torch.zeros(4), [], []
        for _ in range(60):
            d = torch.distributions.Categorical(logits=policy(state))
            action = d.sample()
            chosen.append(d.log_prob(action))
            push = 1.0 if action.item() else -1.0
            state = 0.9 * state + 0.1 * push + 0.05 * torch.randn(4)
            rewards.append(-state.abs().mean().item())
        gains = torch.tensor(rewards).flip(0).cumsum(0).flip(0)
        step(opt, -(torch.stack(chosen) * (gains - gains.mean()) / gains.std()).mean())


if __name__ == "__main__":
    torch.manual_seed(0)
    an_agent_acts_step_by_step()

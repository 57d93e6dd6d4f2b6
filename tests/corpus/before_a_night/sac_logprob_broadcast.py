"""Soft actor-critic on a logged set of transitions of a four-joint walker toy."""
import copy
import os
import random

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.distributions import Normal
from torch.utils.data import DataLoader, TensorDataset

SEED = 7
STATE_DIM, ACTION_DIM, HIDDEN = 8, 4, 128
TRANSITIONS, BATCH = 2048, 64
EPOCHS = 500
GAMMA, TAU, ALPHA = 0.9, 0.005, 0.02
LR = 1e-3
CKPT = "sac_walker.pt"


def walker_step(state, action):
    """Damped joints pushed by the action; reward for being near the rest pose."""
    pos, vel = state[:, :ACTION_DIM], state[:, ACTION_DIM:]
    vel = 0.8 * vel + 0.3 * action
    pos = pos + 0.5 * vel
    reward = -(pos ** 2).mean(1, keepdims=True) - 0.02 * (action ** 2).mean(1, keepdims=True)
    return np.concatenate([pos, vel], 1), reward


def collect(n, seed):
    rng = np.random.default_rng(seed)
    state = rng.uniform(-1.5, 1.5, (n, STATE_DIM))
    action = rng.uniform(-1.0, 1.0, (n, ACTION_DIM))
    nxt, reward = walker_step(state, action)
    return TensorDataset(*[torch.tensor(a, dtype=torch.float32) for a in (state, action, reward, nxt)])


class Actor(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(STATE_DIM, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, HIDDEN), nn.ReLU())
        self.mu = nn.Linear(HIDDEN, ACTION_DIM)
        self.log_std = nn.Linear(HIDDEN, ACTION_DIM)

    def forward(self, x):
        h = self.body(x)
        mu, std = self.mu(h), self.log_std(h).clamp(-5, 1).exp()
        dist = Normal(mu, std)
        normal_sample = dist.rsample()
        action = torch.tanh(normal_sample)
        log_prob = dist.log_prob(normal_sample) - torch.log(1 - action.pow(2) + 1e-6)
        return action, log_prob


class Critic(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(STATE_DIM + ACTION_DIM, HIDDEN), nn.ReLU(),
                                 nn.Linear(HIDDEN, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, 1))

    def forward(self, state, action):
        return self.net(torch.cat([state, action], dim=1))


class SAC:
    def __init__(self):
        self.actor, self.critic_1, self.critic_2 = Actor(), Critic(), Critic()
        self.target_1, self.target_2 = copy.deepcopy(self.critic_1), copy.deepcopy(self.critic_2)
        self.actor_opt = torch.optim.Adam(self.actor.parameters(), lr=LR)
        self.critic_opt = torch.optim.Adam(
            list(self.critic_1.parameters()) + list(self.critic_2.parameters()), lr=LR)

    def modules(self):
        return {k: getattr(self, k) for k in ("actor", "critic_1", "critic_2", "target_1", "target_2",
                                              "actor_opt", "critic_opt")}

    def td_target(self, rewards, next_states):
        with torch.no_grad():
            actions, log_prob = self.actor(next_states)
            q = torch.min(self.target_1(next_states, actions), self.target_2(next_states, actions))
            return rewards + GAMMA * (q - ALPHA * log_prob)

    def update(self, states, actions, rewards, next_states):
        target = self.td_target(rewards, next_states)
        critic_loss = (F.mse_loss(self.critic_1(states, actions), target)
                       + F.mse_loss(self.critic_2(states, actions), target))
        self.critic_opt.zero_grad()
        critic_loss.backward()
        self.critic_opt.step()

        new_actions, log_prob = self.actor(states)
        q = torch.min(self.critic_1(states, new_actions), self.critic_2(states, new_actions))
        actor_loss = (ALPHA * log_prob - q).mean()
        self.actor_opt.zero_grad()
        actor_loss.backward()
        self.actor_opt.step()

        with torch.no_grad():
            for net, tgt in ((self.critic_1, self.target_1), (self.critic_2, self.target_2)):
                for p, tp in zip(net.parameters(), tgt.parameters()):
                    tp.lerp_(p, TAU)
        return critic_loss.item(), actor_loss.item()


@torch.no_grad()
def evaluate(agent, steps=20):
    agent.actor.eval()
    rng = np.random.default_rng(SEED + 2)
    state, total = rng.uniform(-1.5, 1.5, (64, STATE_DIM)), 0.0
    for _ in range(steps):
        x = torch.tensor(state, dtype=torch.float32)
        action = torch.tanh(agent.actor.mu(agent.actor.body(x))).numpy()
        state, reward = walker_step(state, action)
        total += reward.mean()
    agent.actor.train()
    return total


def main():
    random.seed(SEED)
    np.random.seed(SEED)
    torch.manual_seed(SEED)
    generator = torch.Generator().manual_seed(SEED)
    loader = DataLoader(collect(TRANSITIONS, SEED), batch_size=BATCH, shuffle=True, generator=generator)
    agent, start = SAC(), 0
    if os.path.exists(CKPT):
        state = torch.load(CKPT)
        for name, obj in agent.modules().items():
            obj.load_state_dict(state[name])
        generator.set_state(state["generator"])
        torch.set_rng_state(state["rng"])
        start = state["epoch"] + 1
    for epoch in range(start, EPOCHS):
        losses = [agent.update(*batch) for batch in loader]
        critic, actor = np.mean(losses, axis=0)
        print(f"epoch {epoch} critic_loss {critic:.4f} actor_loss {actor:.4f} return {evaluate(agent):.3f}", flush=True)
        state = {name: obj.state_dict() for name, obj in agent.modules().items()}
        state.update(epoch=epoch, generator=generator.get_state(), rng=torch.get_rng_state())
        torch.save(state, CKPT)


if __name__ == "__main__":
    main()

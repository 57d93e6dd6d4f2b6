import copy

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


class PointMass:
    """Push a mass on a line back to the origin."""

    def __init__(self, seed):
        self.rng = np.random.RandomState(seed)

    def reset(self):
        self.s = np.array([self.rng.uniform(-1, 1), self.rng.uniform(-0.5, 0.5)], np.float32)
        self.t = 0
        return self.s.copy()

    def step(self, a):
        x, v = self.s
        v = 0.9 * v + 0.3 * float(a)
        x = float(np.clip(x + 0.3 * v, -2, 2))
        self.s = np.array([x, v], np.float32)
        self.t += 1
        reward = -(x * x + 0.1 * v * v)
        return self.s.copy(), reward, self.t >= 30


class Actor(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(2, 48), nn.ReLU(), nn.Linear(48, 48), nn.ReLU(), nn.Linear(48, 1), nn.Tanh())

    def forward(self, s):
        return self.net(s)


class Critic(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(3, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1))

    def forward(self, s, a):
        return self.net(torch.cat([s, a], 1))


class DDPG:
    def __init__(self, gamma=0.9, tau=0.05):
        self.actor, self.critic = Actor(), Critic()
        self.target_actor = copy.deepcopy(self.actor)
        self.target_critic = copy.deepcopy(self.critic)
        self.actor_optimizer = torch.optim.Adam(self.actor.parameters(), lr=1e-3)
        self.critic_optimizer = torch.optim.Adam(self.critic.parameters(), lr=3e-3)
        self.gamma, self.tau = gamma, tau

    @torch.no_grad()
    def act(self, state):
        return self.actor(torch.from_numpy(state)[None]).numpy()[0, 0]

    def learn(self, s, a, r, ns, done):
        with torch.no_grad():
            next_q = self.target_critic(ns, self.target_actor(ns))
            target_q = r + self.gamma * (1 - done) * next_q
        critic_loss = F.mse_loss(self.critic(s, a), target_q)
        self.critic_optimizer.zero_grad(set_to_none=True)
        critic_loss.backward()
        self.critic_optimizer.step()

        actor_loss = -self.critic(s, self.actor(s)).mean()
        self.actor_optimizer.zero_grad(set_to_none=True)
        actor_loss.backward()
        self.actor_optimizer.step()
        self.update_target_soft()
        return critic_loss.item(), actor_loss.item()

    def update_target_soft(self):
        for t_p, p in zip(self.target_critic.parameters(), self.critic.parameters()):
            t_p.data.copy_(self.tau * p.data + (1 - self.tau) * t_p.data)


class ReplayBuffer:
    def __init__(self, seed):
        self.data, self.rng = [], np.random.RandomState(seed)

    def store(self, *tr):
        self.data.append(tr)

    def sample(self, n):
        idx = self.rng.randint(0, len(self.data), n)
        cols = list(zip(*[self.data[i] for i in idx]))
        out = [torch.from_numpy(np.asarray(c, np.float32)) for c in cols]
        return out[0], out[1][:, None], out[2][:, None], out[3], out[4][:, None]


def evaluate(agent, episodes=10):
    env, total = PointMass(999), 0.0
    for _ in range(episodes):
        s, done = env.reset(), False
        while not done:
            s, r, done = env.step(agent.act(s))
            total += r
    return total / episodes


def main():
    torch.manual_seed(0)
    rng = np.random.RandomState(0)
    env, memory, agent = PointMass(1), ReplayBuffer(2), DDPG()
    s = env.reset()
    for _ in range(1500):
        a = rng.uniform(-1, 1)
        ns, r, done = env.step(a)
        memory.store(s, a, r, ns, 0.0)
        s = env.reset() if done else ns
    print("score before", round(evaluate(agent), 3))
    for step in range(1, 301):
        a = float(np.clip(agent.act(s) + rng.normal(0, 0.2), -1, 1))
        ns, r, done = env.step(a)
        memory.store(s, a, r, ns, 0.0)
        s = env.reset() if done else ns
        critic_loss, actor_loss = agent.learn(*memory.sample(128))
        if step % 50 == 0:
            print(f"step {step} critic {critic_loss:.4f} actor {actor_loss:.4f} score {evaluate(agent):.3f}")


if __name__ == "__main__":
    main()

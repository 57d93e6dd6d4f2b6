"""DDPG for cruise control of a heavy truck on hilly roads."""
import argparse
import copy
import random
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

parser = argparse.ArgumentParser()
parser.add_argument("--total_updates", type=int, default=150000)
parser.add_argument("--n_envs", type=int, default=16)
parser.add_argument("--batch_size", type=int, default=256)
parser.add_argument("--buffer_size", type=int, default=200000)
parser.add_argument("--warmup_steps", type=int, default=100)
parser.add_argument("--gamma", type=float, default=0.97)
parser.add_argument("--tau", type=float, default=0.01)
parser.add_argument("--actor_lr", type=float, default=3e-4)
parser.add_argument("--critic_lr", type=float, default=1e-3)
parser.add_argument("--noise", type=float, default=0.2)
parser.add_argument("--eval_every", type=int, default=250)
parser.add_argument("--seed", type=int, default=5)


class TruckEnv:
    """A batch of trucks. State: speed, wanted speed, slope, slope ahead, load."""
    HORIZON = 80

    def __init__(self, n, seed):
        self.n = n
        self.rng = np.random.default_rng(seed)
        self.reset()

    def reset(self):
        n = self.n
        self.v = self.rng.uniform(0.3, 1.2, n)
        self.target = self.rng.uniform(0.5, 1.1, n)
        self.slope = self.rng.normal(0, 0.3, n)
        self.ahead = self.rng.normal(0, 0.3, n)
        self.load = self.rng.uniform(0.6, 1.4, n)
        self.t = 0
        return self.obs()

    def obs(self):
        return np.stack([self.v, self.target, self.slope, self.ahead, self.load], 1).astype(np.float32)

    def step(self, action):
        a = np.clip(action[:, 0], -1, 1)
        force = 0.12 * a - 0.06 * self.load * self.slope - 0.02 * self.v ** 2
        self.v = np.clip(self.v + force / self.load, 0, 1.6)
        self.slope = 0.8 * self.slope + 0.2 * self.ahead
        self.ahead = np.clip(0.9 * self.ahead + self.rng.normal(0, 0.15, self.n), -1, 1)
        reward = -4.0 * (self.v - self.target) ** 2 - 0.02 * a ** 2
        self.t += 1
        return self.obs(), reward.astype(np.float32), self.t >= self.HORIZON


class Replay:
    def __init__(self, size, obs_dim, act_dim):
        self.s = np.zeros((size, obs_dim), np.float32)
        self.a = np.zeros((size, act_dim), np.float32)
        self.r = np.zeros(size, np.float32)
        self.s2 = np.zeros((size, obs_dim), np.float32)
        self.size, self.pos, self.full = size, 0, False

    def __len__(self):
        return self.size if self.full else self.pos

    def add(self, s, a, r, s2):
        for row in zip(s, a, r, s2):
            self.s[self.pos], self.a[self.pos], self.r[self.pos], self.s2[self.pos] = row
            self.pos = (self.pos + 1) % self.size
            self.full = self.full or self.pos == 0

    def sample(self, n):
        idx = np.random.randint(0, len(self), n)
        return tuple(torch.from_numpy(x[idx]) for x in (self.s, self.a, self.r, self.s2))


def mlp(i, o, hidden=256):
    return nn.Sequential(nn.Linear(i, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, o))


class Actor(nn.Module):
    def __init__(self, obs_dim, act_dim):
        super().__init__()
        self.net = mlp(obs_dim, act_dim)

    def forward(self, s):
        return torch.tanh(self.net(s))


class Critic(nn.Module):
    def __init__(self, obs_dim, act_dim):
        super().__init__()
        self.net = mlp(obs_dim + act_dim, 1)

    def forward(self, s, a):
        return self.net(torch.cat([s, a], 1)).squeeze(1)


def soft_update(target, source, tau):
    with torch.no_grad():
        for t, p in zip(target.parameters(), source.parameters()):
            t.mul_(1 - tau).add_(tau * p)


@torch.no_grad()
def evaluate(actor, seed=999):
    env = TruckEnv(32, seed)
    s, done, total = env.obs(), False, np.zeros(32)
    while not done:
        s, r, done = env.step(actor(torch.from_numpy(s)).numpy())
        total += r
    return total.mean()


def main():
    args = parser.parse_args()
    random.seed(args.seed)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)

    env = TruckEnv(args.n_envs, args.seed)
    obs_dim, act_dim = env.obs().shape[1], 1
    actor, critic = Actor(obs_dim, act_dim), Critic(obs_dim, act_dim)
    actor_target, critic_target = copy.deepcopy(actor), copy.deepcopy(critic)
    actor_optimizer = torch.optim.Adam(actor.parameters(), lr=args.actor_lr)
    critic_optimizer = torch.optim.Adam(critic.parameters(), lr=args.critic_lr)
    buffer = Replay(args.buffer_size, obs_dim, act_dim)

    state = env.obs()
    for _ in range(args.warmup_steps):
        action = np.random.uniform(-1, 1, (args.n_envs, act_dim)).astype(np.float32)
        nxt, reward, done = env.step(action)
        buffer.add(state, action, reward, nxt)
        state = env.reset() if done else nxt

    best, t0 = -float("inf"), time.time()
    for update in range(1, args.total_updates + 1):
        with torch.no_grad():
            action = actor(torch.from_numpy(state)).numpy()
        action = np.clip(action + np.random.normal(0, args.noise, action.shape), -1, 1).astype(np.float32)
        nxt, reward, done = env.step(action)
        buffer.add(state, action, reward, nxt)
        # the road goes on at the horizon, so the value is bootstrapped there as well
        state = env.reset() if done else nxt

        s, a, r, s2 = buffer.sample(args.batch_size)
        with torch.no_grad():
            target = r + args.gamma * critic_target(s2, actor_target(s2))
        critic_loss = F.mse_loss(critic(s, a), target)
        critic_optimizer.zero_grad()
        critic_loss.backward()
        critic_optimizer.step()

        q_values = critic(s, actor(s))
        actor_loss = -q_values.mean()
        actor_optimizer.zero_grad()
        actor_loss.backward()
        actor_optimizer.step()

        soft_update(critic_target, critic, args.tau)
        soft_update(actor_target, actor, args.tau)

        if update % args.eval_every == 0:
            score = evaluate(actor)
            print(f"update {update:6d} | critic {critic_loss.item():.4f} | q {q_values.mean().item():.3f} | "
                  f"eval return {score:.2f} | {1000 * (time.time() - t0) / update:.1f} ms/update", flush=True)
            if score > best:
                best = score
                torch.save(actor.state_dict(), "truck_actor.pt")


if __name__ == "__main__":
    main()

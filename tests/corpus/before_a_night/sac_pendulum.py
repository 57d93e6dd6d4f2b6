import argparse
import os
import random

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


class Box:
    """Space with its own generator, so that sampling actions does not disturb the dynamics."""

    def __init__(self, low, high, shape):
        self.low, self.high, self.shape = low, high, shape
        self.np_random = np.random.default_rng()

    def seed(self, seed):
        self.np_random = np.random.default_rng(seed)

    def sample(self):
        return self.np_random.uniform(self.low, self.high, self.shape).astype(np.float32)


class Pendulum:
    max_speed, dt, length = 8.0, 0.05, 200

    def __init__(self):
        self.action_space = Box(-1.0, 1.0, (1,))
        self.observation_space = Box(-8.0, 8.0, (3,))
        self.np_random = np.random.default_rng()

    def seed(self, seed):
        self.np_random = np.random.default_rng(seed)

    def obs(self):
        th, v = self.state
        return np.array([np.cos(th), np.sin(th), v / 8], np.float32)

    def reset(self):
        self.state, self.t = self.np_random.uniform([-np.pi, -1], [np.pi, 1]), 0
        return self.obs()

    def step(self, action):
        th, v = self.state
        u = 2.0 * float(np.clip(action[0], -1, 1))
        cost = ((th + np.pi) % (2 * np.pi) - np.pi) ** 2 + 0.1 * v ** 2 + 0.001 * u ** 2
        v = np.clip(v + (15.0 * np.sin(th) + 3.0 * u) * self.dt, -self.max_speed, self.max_speed)
        self.state = np.array([th + v * self.dt, v])
        self.t += 1
        return self.obs(), -cost, self.t >= self.length


class ReplayBuffer:
    def __init__(self, obs_dim, act_dim, capacity):
        self.o, self.o2 = np.zeros((capacity, obs_dim), np.float32), np.zeros((capacity, obs_dim), np.float32)
        self.a, self.r = np.zeros((capacity, act_dim), np.float32), np.zeros(capacity, np.float32)
        self.capacity, self.n = capacity, 0

    def insert(self, o, a, r, o2):
        k = self.n % self.capacity
        self.o[k], self.a[k], self.r[k], self.o2[k] = o, a, r, o2
        self.n += 1

    def sample(self, bs):
        k = np.random.randint(0, min(self.n, self.capacity), size=bs)
        return tuple(torch.from_numpy(x[k]) for x in (self.o, self.a, self.r, self.o2))


def mlp(i, o, h=128):
    return nn.Sequential(nn.Linear(i, h), nn.ReLU(), nn.Linear(h, h), nn.ReLU(), nn.Linear(h, o))


class Actor(nn.Module):
    def __init__(self, obs_dim, act_dim):
        super().__init__()
        self.net = mlp(obs_dim, 2 * act_dim)

    def forward(self, obs, deterministic=False):
        mean, log_std = self.net(obs).chunk(2, -1)
        if deterministic:
            return torch.tanh(mean), None
        std = log_std.clamp(-10, 2).exp()
        u = mean + std * torch.randn_like(mean)
        logp = (-0.5 * ((u - mean) / std) ** 2 - std.log() - 0.919).sum(-1)
        logp = logp - (2 * (np.log(2) - u - F.softplus(-2 * u))).sum(-1)
        return torch.tanh(u), logp


class SAC:
    def __init__(self, obs_dim, act_dim, args):
        self.args = args
        self.actor = Actor(obs_dim, act_dim)
        self.q = nn.ModuleList([mlp(obs_dim + act_dim, 1), mlp(obs_dim + act_dim, 1)])
        self.q_t = nn.ModuleList([mlp(obs_dim + act_dim, 1), mlp(obs_dim + act_dim, 1)])
        self.q_t.load_state_dict(self.q.state_dict())
        self.log_alpha = torch.zeros(1, requires_grad=True)
        self.opt_a = torch.optim.Adam(self.actor.parameters(), lr=args.actor_lr)
        self.opt_q = torch.optim.Adam(self.q.parameters(), lr=args.critic_lr)
        self.opt_t = torch.optim.Adam([self.log_alpha], lr=args.temp_lr)
        self.target_entropy = -act_dim / 2

    @torch.no_grad()
    def sample_actions(self, obs, deterministic=False):
        return self.actor(torch.from_numpy(obs)[None], deterministic)[0][0].numpy()

    def update(self, batch):
        o, a, r, o2 = batch
        alpha = self.log_alpha.exp().detach()
        with torch.no_grad():
            a2, logp2 = self.actor(o2)
            q2 = torch.min(*[q(torch.cat([o2, a2], 1)).squeeze(1) for q in self.q_t])
            target = r + self.args.discount * (q2 - alpha * logp2)
        q_loss = sum(F.mse_loss(q(torch.cat([o, a], 1)).squeeze(1), target) for q in self.q)
        self.opt_q.zero_grad()
        q_loss.backward()
        self.opt_q.step()

        pi, logp = self.actor(o)
        q_pi = torch.min(*[q(torch.cat([o, pi], 1)).squeeze(1) for q in self.q])
        a_loss = (alpha * logp - q_pi).mean()
        self.opt_a.zero_grad()
        a_loss.backward()
        self.opt_a.step()

        t_loss = -(self.log_alpha.exp() * (logp.detach() + self.target_entropy)).mean()
        self.opt_t.zero_grad()
        t_loss.backward()
        self.opt_t.step()
        with torch.no_grad():
            for t, p in zip(self.q_t.parameters(), self.q.parameters()):
                t.lerp_(p, self.args.tau)
        return q_loss.item(), a_loss.item(), alpha.item()


def evaluate(agent, env, episodes):
    total = 0.0
    for _ in range(episodes):
        obs, done = env.reset(), False
        while not done:
            obs, r, done = env.step(agent.sample_actions(obs, True))
            total += r
    return total / episodes


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--seed", type=int, default=42, help="Random seed.")
    p.add_argument("--max_steps", type=int, default=200000)
    p.add_argument("--start_training", type=int, default=500)
    p.add_argument("--batch_size", type=int, default=256)
    p.add_argument("--eval_interval", type=int, default=2000)
    p.add_argument("--log_interval", type=int, default=50)
    p.add_argument("--actor_lr", type=float, default=1e-3)
    p.add_argument("--critic_lr", type=float, default=1e-3)
    p.add_argument("--temp_lr", type=float, default=1e-3)
    p.add_argument("--discount", type=float, default=0.98)
    p.add_argument("--tau", type=float, default=0.01)
    p.add_argument("--save_dir", default="./sac_tmp")
    args = p.parse_args()
    os.makedirs(args.save_dir, exist_ok=True)

    def make_env(seed):
        env = Pendulum()
        env.seed(seed)
        return env

    env, eval_env = make_env(args.seed), make_env(args.seed + 42)
    np.random.seed(args.seed)
    random.seed(args.seed)
    torch.manual_seed(args.seed)

    agent = SAC(env.observation_space.shape[0], env.action_space.shape[0], args)
    buffer = ReplayBuffer(env.observation_space.shape[0], env.action_space.shape[0], args.max_steps)
    obs, ret = env.reset(), 0.0
    for i in range(1, args.max_steps + 1):
        action = env.action_space.sample() if i < args.start_training else agent.sample_actions(obs)
        obs2, reward, done = env.step(action)
        buffer.insert(obs, action, reward, obs2)
        obs, ret = obs2, ret + reward
        if done:
            print(f"step {i} episode return {ret:.1f}", flush=True)
            obs, ret = env.reset(), 0.0
        if i >= args.start_training:
            info = agent.update(buffer.sample(args.batch_size))
            if i % args.log_interval == 0:
                print("step %d q_loss %.4f a_loss %.4f alpha %.4f" % ((i,) + info), flush=True)
        if i % args.eval_interval == 0:
            print(f"step {i} evaluation {evaluate(agent, eval_env, 5):.1f}", flush=True)
            torch.save(agent.actor.state_dict(), os.path.join(args.save_dir, "actor.pt"))


if __name__ == "__main__":
    main()

"""MADDPG on a small cooperative spread task: every agent walks to its own landmark, bumping costs reward."""
import argparse
import random

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


class SpreadEnv:
    def __init__(self, n, seed):
        self.n, self.rng = n, np.random.default_rng(seed)

    def observe(self):
        obs = []
        for i in range(self.n):
            others = [self.pos[j] - self.pos[i] for j in range(self.n) if j != i]
            obs.append(np.concatenate([self.vel[i], self.marks[i] - self.pos[i]] + others))
        return np.stack(obs).astype(np.float32)

    def reset(self):
        self.pos = self.rng.uniform(-1, 1, (self.n, 2))
        self.marks = self.rng.uniform(-1, 1, (self.n, 2))
        self.vel = np.zeros((self.n, 2))
        return self.observe()

    def step(self, actions):
        self.vel = 0.6 * self.vel + 0.12 * np.clip(actions, -1, 1)
        self.pos = np.clip(self.pos + self.vel, -1.5, 1.5)
        dist = np.linalg.norm(self.pos - self.marks, axis=1)
        reward = -dist
        for i in range(self.n):
            for j in range(self.n):
                if i != j and np.linalg.norm(self.pos[i] - self.pos[j]) < 0.15:
                    reward[i] -= 0.3
        return self.observe(), reward.astype(np.float32)


class ReplayMemory:
    def __init__(self, size, n, obs_dim, act_dim, seed):
        self.s = np.zeros((size, n, obs_dim), np.float32)
        self.s2 = np.zeros((size, n, obs_dim), np.float32)
        self.a = np.zeros((size, n, act_dim), np.float32)
        self.r = np.zeros((size, n), np.float32)
        self.size, self.count, self.rng = size, 0, np.random.default_rng(seed)

    def add(self, s, a, r, s2):
        k = self.count % self.size
        self.s[k], self.a[k], self.r[k], self.s2[k] = s, a, r, s2
        self.count += 1

    def __len__(self):
        return min(self.count, self.size)

    def mini_batch(self, n):
        k = self.rng.integers(len(self), size=n)
        return tuple(torch.from_numpy(x[k]) for x in (self.s, self.a, self.r, self.s2))


def mlp(i, o, h):
    return nn.Sequential(nn.Linear(i, h), nn.ReLU(), nn.Linear(h, h), nn.ReLU(), nn.Linear(h, o))


class ActorNetwork:
    def __init__(self, state_dim, action_dim, lr, tau, hidden):
        self.action_dim, self.tau = action_dim, tau
        self.net = nn.Sequential(mlp(state_dim, action_dim, hidden), nn.Tanh())
        self.target = nn.Sequential(mlp(state_dim, action_dim, hidden), nn.Tanh())
        self.target.load_state_dict(self.net.state_dict())
        self.opt = torch.optim.Adam(self.net.parameters(), lr=lr)

    def train(self, states, a_gradient):
        out = self.net(states)
        self.opt.zero_grad()
        out.backward(-a_gradient / len(states))
        self.opt.step()

    @torch.no_grad()
    def update_target(self):
        for t, p in zip(self.target.parameters(), self.net.parameters()):
            t.lerp_(p, self.tau)


class CriticNetwork:
    def __init__(self, in_dim, lr, tau, hidden):
        self.tau = tau
        self.net, self.target = mlp(in_dim, 1, hidden), mlp(in_dim, 1, hidden)
        self.target.load_state_dict(self.net.state_dict())
        self.opt = torch.optim.Adam(self.net.parameters(), lr=lr)

    def train(self, states, actions, y):
        q = self.net(torch.cat([states, actions], 1)).squeeze(1)
        loss = F.mse_loss(q, y)
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        return loss.item()

    def action_gradients(self, states, actions):
        actions = actions.detach().requires_grad_(True)
        q = self.net(torch.cat([states, actions], 1))
        return torch.autograd.grad(q.sum(), actions)[0]

    update_target = ActorNetwork.update_target


def update(actors, critics, memory, args):
    n, losses = len(actors), []
    action_dims_done = 0
    for i in range(n):
        actor, critic = actors[i], critics[i]
        s, a, r, s2 = memory.mini_batch(args.minibatch_size)
        joint_s, joint_s2 = s.flatten(1), s2.flatten(1)
        with torch.no_grad():
            a2 = torch.cat([actors[j].target(s2[:, j]) for j in range(n)], 1)
            y = r[:, i] + args.gamma * critic.target(torch.cat([joint_s2, a2], 1)).squeeze(1)
        losses.append(critic.train(joint_s, a.flatten(1), y))

        with torch.no_grad():
            actions_pred = torch.cat([actors[j].net(s[:, j]) for j in range(n)], 1)
        grads = critic.action_gradients(joint_s, actions_pred)
        grads = grads[:, action_dims_done:action_dims_done + actor.action_dim]
        actor.train(s[:, i], grads)
        action_dims_done = action_dims_done + actor.action_dim
        actor.update_target()
        critic.update_target()
    return np.mean(losses)


def evaluate(env, actors, length, episodes=10):
    total = np.zeros(len(actors))
    for _ in range(episodes):
        s = env.reset()
        for _ in range(length):
            with torch.no_grad():
                a = np.stack([actors[i].net(torch.from_numpy(s[i])).numpy() for i in range(len(actors))])
            s, r = env.step(a)
            total += r
    return total / episodes


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--agents", type=int, default=3)
    p.add_argument("--max_episodes", type=int, default=10000)
    p.add_argument("--max_episode_len", type=int, default=25)
    p.add_argument("--buffer_size", type=int, default=100000)
    p.add_argument("--minibatch_size", type=int, default=256)
    p.add_argument("--actor_lr", type=float, default=1e-3)
    p.add_argument("--critic_lr", type=float, default=2e-3)
    p.add_argument("--gamma", type=float, default=0.9)
    p.add_argument("--tau", type=float, default=0.01)
    p.add_argument("--hidden", type=int, default=64)
    p.add_argument("--noise", type=float, default=0.3)
    p.add_argument("--random_seed", type=int, default=5)
    args = p.parse_args()
    random.seed(args.random_seed)
    np.random.seed(args.random_seed)
    torch.manual_seed(args.random_seed)

    env, eval_env = SpreadEnv(args.agents, args.random_seed), SpreadEnv(args.agents, args.random_seed + 1)
    obs_dim, act_dim = env.reset().shape[1], 2
    actors = [ActorNetwork(obs_dim, act_dim, args.actor_lr, args.tau, args.hidden) for _ in range(args.agents)]
    critics = [CriticNetwork(args.agents * (obs_dim + act_dim), args.critic_lr, args.tau, args.hidden)
               for _ in range(args.agents)]
    memory = ReplayMemory(args.buffer_size, args.agents, obs_dim, act_dim, args.random_seed)
    for ep in range(args.max_episodes):
        s, ep_reward, losses = env.reset(), np.zeros(args.agents), []
        for _ in range(args.max_episode_len):
            with torch.no_grad():
                a = np.stack([actors[i].net(torch.from_numpy(s[i])).numpy() for i in range(args.agents)])
            a = np.clip(a + args.noise * np.random.randn(*a.shape), -1, 1)
            s2, r = env.step(a)
            memory.add(s, a, r, s2)
            s, ep_reward = s2, ep_reward + r
            if len(memory) > 2 * args.minibatch_size:
                losses.append(update(actors, critics, memory, args))
        if ep % 5 == 0:
            print(f"|Reward: {np.round(ep_reward, 2)} | Episode: {ep} | critic loss {np.mean(losses or [0]):.4f}",
                  flush=True)
        if ep % 50 == 0:
            print("   evaluation per agent", np.round(evaluate(eval_env, actors, args.max_episode_len), 2), flush=True)
            torch.save([x.net.state_dict() for x in actors], "maddpg_actors.pt")


if __name__ == "__main__":
    main()

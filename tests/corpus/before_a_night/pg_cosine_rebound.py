"""Policy gradient with a learned value baseline on a small batched point-reaching task."""
import argparse
import os
import random

import numpy as np
import torch
import torch.nn as nn
from torch.distributions import Normal

HORIZON = 16


class PointEnv:
    """A point in the plane moves by a clipped action; the reward is minus the distance to a goal."""

    def __init__(self, n, generator):
        self.n, self.g = n, generator

    def reset(self):
        self.pos = torch.rand(self.n, 2, generator=self.g) * 2 - 1
        self.goal = torch.rand(self.n, 2, generator=self.g) * 2 - 1
        return self.obs()

    def obs(self):
        return torch.cat([self.pos, self.goal, self.goal - self.pos], 1)

    def step(self, action):
        self.pos = (self.pos + 0.25 * action.clamp(-1, 1)).clamp(-1.5, 1.5)
        return self.obs(), -(self.pos - self.goal).norm(dim=1)


class ActorCritic(nn.Module):
    def __init__(self, hidden=64):
        super().__init__()
        self.pi = nn.Sequential(nn.Linear(6, hidden), nn.Tanh(), nn.Linear(hidden, hidden), nn.Tanh(), nn.Linear(hidden, 2))
        self.v = nn.Sequential(nn.Linear(6, hidden), nn.Tanh(), nn.Linear(hidden, hidden), nn.Tanh(), nn.Linear(hidden, 1))
        self.log_std = nn.Parameter(torch.full((2,), -0.5))

    def forward(self, obs):
        return Normal(self.pi(obs), self.log_std.exp()), self.v(obs).squeeze(-1)


def build_scheduler(optimizer, total_steps, warmup_steps):
    return torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=total_steps - warmup_steps, eta_min=0)


def rollout(env, model, action_rng):
    obs = env.reset()
    observations, actions, rewards = [], [], []
    with torch.no_grad():
        for _ in range(HORIZON):
            dist, _ = model(obs)
            a = dist.mean + dist.stddev * torch.randn(dist.mean.shape, generator=action_rng)
            observations.append(obs)
            actions.append(a)
            obs, r = env.step(a)
            rewards.append(r)
    returns, acc = [], torch.zeros(env.n)
    for r in reversed(rewards):
        acc = 0.1 * r + 0.9 * acc
        returns.append(acc)
    returns = torch.stack(returns[::-1])
    return torch.cat(observations), torch.cat(actions), returns.flatten(), torch.stack(rewards).mean().item()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--total_steps", type=int, default=1500)
    ap.add_argument("--warmup_steps", type=int, default=300)
    ap.add_argument("--lr", type=float, default=3e-3)
    ap.add_argument("--envs", type=int, default=128)
    ap.add_argument("--save_every", type=int, default=20)
    ap.add_argument("--seed", type=int, default=11)
    ap.add_argument("--ckpt", default="pg.pt")
    args = ap.parse_args()
    random.seed(args.seed)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)

    rng = torch.Generator().manual_seed(args.seed)
    env = PointEnv(args.envs, rng)
    model = ActorCritic()
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
    scheduler = build_scheduler(optimizer, args.total_steps, args.warmup_steps)
    first = 0
    if os.path.exists(args.ckpt):
        ck = torch.load(args.ckpt)
        model.load_state_dict(ck["model"])
        optimizer.load_state_dict(ck["optimizer"])
        scheduler.load_state_dict(ck["scheduler"])
        rng.set_state(ck["rng"])
        first = ck["step"]
        print("resumed at step", first)

    for step in range(first, args.total_steps):
        obs, act, ret, mean_reward = rollout(env, model, rng)
        dist, value = model(obs)
        adv = (ret - value).detach()
        adv = (adv - adv.mean()) / (adv.std() + 1e-6)
        policy_loss = -(dist.log_prob(act).sum(-1) * adv).mean()
        value_loss = (value - ret).pow(2).mean()
        loss = policy_loss + 0.5 * value_loss - 0.001 * dist.entropy().sum(-1).mean()
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        scheduler.step()
        if step % 5 == 0:
            print(f"step {step} loss {loss.item():.4f} value {value_loss.item():.4f} reward {mean_reward:.4f} "
                  f"lr {scheduler.get_last_lr()[0]:.2e}", flush=True)
        if (step + 1) % args.save_every == 0:
            torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(),
                        "scheduler": scheduler.state_dict(), "rng": rng.get_state(), "step": step + 1}, args.ckpt)


if __name__ == "__main__":
    main()

"""PPO on a vectorised target-reaching task; several mini-batches and epochs per collected batch."""
import argparse
import os
import random

import numpy as np
import torch
import torch.nn as nn
from torch.distributions import Categorical


class ReachEnv:
    """n agents on a 7 x 7 board walk to a target; observation: both positions and the clock; cost is the distance."""

    def __init__(self, n, size=7, horizon=16, seed=0):
        self.n, self.size, self.horizon = n, size, horizon
        self.rng = np.random.default_rng(seed)
        self.moves = np.array([[0, 1], [0, -1], [1, 0], [-1, 0]])
        self.reset()

    def reset(self):
        self.pos = self.rng.integers(0, self.size, (self.n, 2))
        self.goal = self.rng.integers(0, self.size, (self.n, 2))
        self.t = 0
        return self.obs()

    def obs(self):
        a = np.concatenate([self.pos, self.goal], 1) / (self.size - 1) * 2 - 1
        a = np.concatenate([a, np.full((self.n, 1), self.t / self.horizon * 2 - 1)], 1)
        return torch.tensor(a, dtype=torch.float32)

    def step(self, action):
        self.pos = np.clip(self.pos + self.moves[action.numpy()], 0, self.size - 1)
        reward = -0.1 * np.abs(self.pos - self.goal).sum(1)
        self.t += 1
        done = self.t >= self.horizon
        return (self.reset() if done else self.obs()), torch.tensor(reward, dtype=torch.float32), done


class ActorCritic(nn.Module):
    def __init__(self, obs=5, actions=4, hidden=64):
        super().__init__()
        self.pi = nn.Sequential(nn.Linear(obs, hidden), nn.Tanh(), nn.Linear(hidden, hidden), nn.Tanh(),
                                nn.Linear(hidden, actions))
        self.v = nn.Sequential(nn.Linear(obs, hidden), nn.Tanh(), nn.Linear(hidden, hidden), nn.Tanh(),
                               nn.Linear(hidden, 1))

    def forward(self, obs):
        return Categorical(logits=self.pi(obs)), self.v(obs).squeeze(-1)


@torch.no_grad()
def collect(env, model, obs, steps, gamma, lam):
    O, A, L, R, V = [], [], [], [], []
    for _ in range(steps):
        dist, value = model(obs)
        act = dist.sample()
        O.append(obs), A.append(act), L.append(dist.log_prob(act)), V.append(value)
        obs, rew, done = env.step(act)
        R.append(rew)
    adv, last = [], torch.zeros_like(R[0])
    for t in reversed(range(steps)):
        nxt = V[t + 1] if t + 1 < steps else torch.zeros_like(V[t])
        last = R[t] + gamma * nxt - V[t] + gamma * lam * last
        adv.insert(0, last)
    adv, val = torch.stack(adv), torch.stack(V)
    flat = lambda x: torch.stack(x).flatten(0, 1)
    return flat(O), flat(A), flat(L), adv.flatten(), (adv + val).flatten(), torch.stack(R).sum(0).mean().item(), obs


def ppo_loss(model, obs, act, old_logp, adv, ret, clip, ent_coef):
    dist, value = model(obs)
    ratio = (dist.log_prob(act) - old_logp).exp()
    adv = (adv - adv.mean()) / (adv.std() + 1e-8)
    policy = -torch.min(ratio * adv, ratio.clamp(1 - clip, 1 + clip) * adv).mean()
    return policy + 0.5 * (value - ret).pow(2).mean() - ent_coef * dist.entropy().mean()


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--train-batches", type=int, default=1500)
    p.add_argument("--num-envs", type=int, default=64)
    p.add_argument("--mini-batches", type=int, default=4)
    p.add_argument("--ppo-epochs", type=int, default=2)
    p.add_argument("--lr", type=float, default=1e-3)
    p.add_argument("--warmup-steps", type=int, default=5)
    p.add_argument("--gamma", type=float, default=0.95)
    p.add_argument("--lam", type=float, default=0.95)
    p.add_argument("--seed", type=int, default=3)
    p.add_argument("--ckpt", default="ppo_reach.pt")
    p.add_argument("--ckpt-every", type=int, default=2)
    a = p.parse_args()
    random.seed(a.seed)
    np.random.seed(a.seed)
    torch.manual_seed(a.seed)

    env = ReachEnv(a.num_envs, seed=a.seed)
    model = ActorCritic()
    optimizer = torch.optim.Adam(model.parameters(), lr=a.lr, eps=1e-5)
    num_training_steps = a.train_batches

    def linear_decay(step):
        if step < a.warmup_steps:
            return (step + 1) / (a.warmup_steps + 1)
        return max(0.0, (num_training_steps - step) / max(1, num_training_steps - a.warmup_steps))

    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, linear_decay)
    obs, first = env.reset(), 0
    if os.path.exists(a.ckpt):
        c = torch.load(a.ckpt, weights_only=False)
        model.load_state_dict(c["model"])
        optimizer.load_state_dict(c["optimizer"])
        scheduler.load_state_dict(c["scheduler"])
        torch.set_rng_state(c["rng"])
        env.rng.bit_generator.state = c["env_rng"]
        env.pos, env.goal, env.t = c["env"]
        obs, first = env.obs(), c["batch"]
    for batch in range(first, a.train_batches):
        O, A, L, adv, ret, score, obs = collect(env, model, obs, env.horizon, a.gamma, a.lam)
        losses = []
        for _ in range(a.ppo_epochs):
            for idx in torch.randperm(len(O)).chunk(a.mini_batches):
                loss = ppo_loss(model, O[idx], A[idx], L[idx], adv[idx], ret[idx], 0.2, 0.01)
                optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(model.parameters(), 0.5)
                optimizer.step()
                scheduler.step()
                losses.append(loss.item())
        print(f"batch {batch} loss {np.mean(losses):.4f} return {score:.3f} lr {scheduler.get_last_lr()[0]:.2e}", flush=True)
        if (batch + 1) % a.ckpt_every == 0:
            torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(),
                        "scheduler": scheduler.state_dict(), "rng": torch.get_rng_state(), "batch": batch + 1,
                        "env_rng": env.rng.bit_generator.state, "env": (env.pos, env.goal, env.t)}, a.ckpt)


if __name__ == "__main__":
    main()

"""PPO on a vectorised cart-pole with a rollout horizon that grows during training.

Short rollouts at the start give many cheap updates, longer ones later on give
better advantage estimates.
"""
import argparse
import math
import time

import numpy as np
import torch
import torch.nn as nn
from torch.distributions import Categorical


class VecCartPole:
    """n independent cart-poles, reset automatically (same physics as gym's CartPole-v1)."""

    def __init__(self, n_envs, max_steps=200, seed=0):
        self.n = n_envs
        self.max_steps = max_steps
        self.rng = np.random.default_rng(seed)
        self.gravity, self.mc, self.mp, self.length = 9.8, 1.0, 0.1, 0.5
        self.force_mag, self.tau = 10.0, 0.02
        self.state = np.zeros((n_envs, 4))
        self.t = np.zeros(n_envs, dtype=int)

    def _fresh(self, k):
        return self.rng.uniform(-0.05, 0.05, size=(k, 4))

    def reset(self):
        self.state = self._fresh(self.n)
        self.t[:] = 0
        return self.state.astype(np.float32)

    def step(self, action):
        x, x_dot, th, th_dot = self.state.T
        force = np.where(action == 1, self.force_mag, -self.force_mag)
        total, pml = self.mc + self.mp, self.mp * self.length
        temp = (force + pml * th_dot ** 2 * np.sin(th)) / total
        th_acc = (self.gravity * np.sin(th) - np.cos(th) * temp) / (
            self.length * (4.0 / 3.0 - self.mp * np.cos(th) ** 2 / total))
        x_acc = temp - pml * th_acc * np.cos(th) / total
        self.state = np.stack([x + self.tau * x_dot, x_dot + self.tau * x_acc,
                               th + self.tau * th_dot, th_dot + self.tau * th_acc], axis=1)
        self.t += 1
        fell = (np.abs(self.state[:, 0]) > 2.4) | (np.abs(self.state[:, 2]) > 12 * math.pi / 180)
        timeout = self.t >= self.max_steps
        done = fell | timeout
        reward = np.ones(self.n, dtype=np.float32)
        lengths = self.t[done].tolist()
        if done.any():
            self.state[done] = self._fresh(int(done.sum()))
            self.t[done] = 0
        return self.state.astype(np.float32), reward, fell, done, lengths


class ActorCritic(nn.Module):
    def __init__(self, obs_dim=4, n_actions=2, hidden=320):
        super().__init__()
        def body():
            return nn.Sequential(nn.Linear(obs_dim, hidden), nn.Tanh(),
                                 nn.Linear(hidden, hidden), nn.Tanh(),
                                 nn.Linear(hidden, hidden), nn.Tanh())
        self.pi_body, self.v_body = body(), body()
        self.pi = nn.Linear(hidden, n_actions)
        self.v = nn.Linear(hidden, 1)
        for m in self.modules():
            if isinstance(m, nn.Linear):
                nn.init.orthogonal_(m.weight, math.sqrt(2))
                nn.init.zeros_(m.bias)
        nn.init.orthogonal_(self.pi.weight, 0.01)
        nn.init.orthogonal_(self.v.weight, 1.0)

    def forward(self, obs):
        return self.pi(self.pi_body(obs)), self.v(self.v_body(obs)).squeeze(-1)

    def evaluate_actions(self, obs, actions):
        logits, values = self(obs)
        dist = Categorical(logits=logits)
        return values, dist.log_prob(actions), dist.entropy()


class RolloutBuffer:
    def __init__(self):
        self.clear()

    def clear(self):
        self.obs, self.act, self.logp, self.val, self.rew, self.fell, self.done = [], [], [], [], [], [], []

    def add(self, obs, act, logp, val, rew, fell, done):
        for store, item in zip((self.obs, self.act, self.logp, self.val, self.rew, self.fell, self.done),
                               (obs, act, logp, val, rew, fell, done)):
            store.append(torch.as_tensor(item))

    def finish(self, last_val, gamma, lam):
        val = torch.stack(self.val + [last_val])
        adv = torch.zeros(len(self.rew), val.shape[1])
        last = torch.zeros(val.shape[1])
        for t in reversed(range(len(self.rew))):
            nonterminal = 1.0 - self.done[t].float()
            delta = self.rew[t] + gamma * val[t + 1] * nonterminal - val[t]
            # an episode that only ran out of time goes on in value
            delta = delta + gamma * val[t] * (self.done[t] & ~self.fell[t]).float()
            last = delta + gamma * lam * nonterminal * last
            adv[t] = last
        self.adv = adv.flatten()
        self.ret = (adv + val[:-1]).flatten()
        self.obs = torch.stack(self.obs).flatten(0, 1)
        self.act = torch.stack(self.act).flatten()
        self.logp = torch.stack(self.logp).flatten()

    def get(self, batch_size, generator):
        n = len(self.adv)
        idx = torch.randperm(n, generator=generator)
        for s in range(0, n, batch_size):
            b = idx[s:s + batch_size]
            yield self.obs[b], self.act[b], self.logp[b], self.adv[b], self.ret[b]


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--iterations", type=int, default=26)
    p.add_argument("--n-envs", type=int, default=5)
    p.add_argument("--n-steps", type=int, default=120, help="rollout length at the start")
    p.add_argument("--n-steps-grow", type=int, default=5, help="added after every iteration")
    p.add_argument("--batch-size", type=int, default=64)
    p.add_argument("--n-epochs", type=int, default=3)
    p.add_argument("--lr", type=float, default=3e-4)
    p.add_argument("--gamma", type=float, default=0.98)
    p.add_argument("--lam", type=float, default=0.95)
    p.add_argument("--clip", type=float, default=0.2)
    p.add_argument("--vf-coef", type=float, default=0.25)
    p.add_argument("--ent-coef", type=float, default=0.003)
    p.add_argument("--max-grad-norm", type=float, default=0.5)
    p.add_argument("--seed", type=int, default=7)
    args = p.parse_args()

    torch.set_num_threads(1)
    torch.manual_seed(args.seed)
    np.random.seed(args.seed)
    gen = torch.Generator().manual_seed(args.seed)

    env = VecCartPole(args.n_envs, seed=args.seed)
    policy = ActorCritic()
    optimizer = torch.optim.Adam(policy.parameters(), lr=args.lr, eps=1e-5)
    buffer = RolloutBuffer()
    obs = env.reset()
    start = time.time()

    for it in range(args.iterations):
        n_steps = args.n_steps + it * args.n_steps_grow
        buffer.clear()
        lengths = []
        policy.eval()
        with torch.no_grad():
            for _ in range(n_steps):
                t_obs = torch.from_numpy(obs)
                logits, value = policy(t_obs)
                dist = Categorical(logits=logits)
                action = dist.sample()
                next_obs, reward, fell, done, ended = env.step(action.numpy())
                buffer.add(t_obs, action, dist.log_prob(action), value, reward, fell, done)
                lengths += ended
                obs = next_obs
            last_val = policy(torch.from_numpy(obs))[1]
        buffer.finish(last_val, args.gamma, args.lam)

        policy.train()
        pl, vl, en, k = 0.0, 0.0, 0.0, 0
        for _ in range(args.n_epochs):
            for b_obs, b_act, b_logp, advantages, b_ret in buffer.get(args.batch_size, gen):
                # normalize advantages
                if len(advantages) > 1:
                    advantages = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
                values, logp, entropy = policy.evaluate_actions(b_obs, b_act)
                ratio = (logp - b_logp).exp()
                policy_loss = -torch.min(advantages * ratio,
                                         advantages * ratio.clamp(1 - args.clip, 1 + args.clip)).mean()
                value_loss = nn.functional.smooth_l1_loss(values, b_ret)
                loss = policy_loss + args.vf_coef * value_loss - args.ent_coef * entropy.mean()

                optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(policy.parameters(), args.max_grad_norm)
                optimizer.step()
                pl, vl, en, k = pl + policy_loss.item(), vl + value_loss.item(), en + entropy.mean().item(), k + 1

        mean_len = float(np.mean(lengths)) if lengths else float("nan")
        print(f"it {it:3d}  steps {n_steps * args.n_envs:5d}  ep_len_mean {mean_len:6.1f}  "
              f"pi_loss {pl / k:8.4f}  v_loss {vl / k:7.3f}  entropy {en / k:.3f}  [{time.time() - start:.0f}s]")


if __name__ == "__main__":
    main()

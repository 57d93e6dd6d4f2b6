# REINFORCE with a learned baseline on a small continuous control task (batched environments).
import argparse
import time

import numpy as np
import torch
from torch import nn
from torch.distributions import Independent, Normal


class ReachEnv:
    """A damped point mass in the plane has to reach a target and stay there."""

    def __init__(self, num_envs, horizon, rng):
        self.n, self.horizon, self.rng = num_envs, horizon, rng

    def reset(self):
        self.pos = self.rng.uniform(-1, 1, (self.n, 2))
        self.vel = np.zeros((self.n, 2))
        self.goal = self.rng.uniform(-1, 1, (self.n, 2))
        self.t = 0
        return self._obs()

    def _obs(self):
        return np.concatenate([self.pos, self.vel, self.goal], axis=1).astype(np.float32)

    def step(self, action):
        force = np.clip(action, -1, 1)
        self.vel = 0.7 * self.vel + 0.25 * force
        self.pos = self.pos + self.vel
        self.t += 1
        reward = -np.linalg.norm(self.pos - self.goal, axis=1) - 0.02 * (force ** 2).sum(axis=1)
        return self._obs(), reward.astype(np.float32), self.t >= self.horizon


class Actor(nn.Module):
    def __init__(self, obs_dim, act_dim, hidden):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(obs_dim, hidden), nn.Tanh(), nn.Linear(hidden, hidden), nn.Tanh(),
                                 nn.Linear(hidden, act_dim))
        self.log_std = nn.Parameter(torch.full((act_dim,), -0.5))
        nn.init.orthogonal_(self.net[-1].weight, 0.05)
        nn.init.zeros_(self.net[-1].bias)

    def forward(self, obs):
        return Independent(Normal(self.net(obs), self.log_std.clamp(-2.5, 0.5).exp()), 1)


def make_critic(obs_dim, hidden):
    return nn.Sequential(nn.Linear(obs_dim + 1, hidden), nn.Tanh(), nn.Linear(hidden, hidden), nn.Tanh(),
                         nn.Linear(hidden, 1))


@torch.no_grad()
def rollout(env, actor, gamma):
    data = {"observation": [], "action": [], "reward": [], "time": []}
    obs, done = env.reset(), False
    while not done:
        obs_t = torch.from_numpy(obs)
        action = actor(obs_t).sample()
        next_obs, reward, done = env.step(action.numpy())
        data["observation"].append(obs_t)
        data["action"].append(action)
        data["reward"].append(torch.from_numpy(reward).unsqueeze(-1))
        data["time"].append(torch.full((env.n, 1), env.t / env.horizon))
        obs = next_obs
    batch = {k: torch.stack(v) for k, v in data.items()}
    value_target = torch.zeros_like(batch["reward"])
    running = torch.zeros(env.n, 1)
    for t in reversed(range(env.horizon)):
        running = batch["reward"][t] + gamma * running
        value_target[t] = running
    batch["value_target"] = value_target
    return {k: v.flatten(0, 1) for k, v in batch.items()}


class ReinforceLoss(nn.Module):
    def __init__(self, actor, critic, loss_critic_type="smooth_l1"):
        super().__init__()
        self.actor, self.critic = actor, critic
        self.critic_loss = nn.SmoothL1Loss() if loss_critic_type == "smooth_l1" else nn.MSELoss()

    def forward(self, td):
        value = self.critic(torch.cat([td["observation"], td["time"]], dim=-1))
        advantage = (td["value_target"] - value).detach()
        advantage = advantage / (advantage.std() + 1e-6)
        dist = self.actor(td["observation"])
        log_prob = dist.log_prob(td["action"]).unsqueeze(-1)
        loss_actor = -(log_prob * advantage).mean()
        loss_value = self.critic_loss(value, td["value_target"])
        return {"loss_actor": loss_actor, "loss_value": loss_value, "entropy": dist.entropy().mean().detach()}


@torch.no_grad()
def evaluate(env, actor):
    actor.eval()
    obs, done, total = env.reset(), False, 0.0
    while not done:
        obs, reward, done = env.step(actor(torch.from_numpy(obs)).mean.numpy())
        total += reward.mean()
    actor.train()
    return total, np.linalg.norm(env.pos - env.goal, axis=1).mean()


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--num-envs", type=int, default=64)
    p.add_argument("--horizon", type=int, default=20)
    p.add_argument("--updates", type=int, default=900)
    p.add_argument("--hidden", type=int, default=128)
    p.add_argument("--gamma", type=float, default=0.95)
    p.add_argument("--lr", type=float, default=2e-3)
    p.add_argument("--seed", type=int, default=0)
    args = p.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(args.seed)

    env = ReachEnv(args.num_envs, args.horizon, np.random.default_rng(args.seed))
    test_env = ReachEnv(256, args.horizon, np.random.default_rng(args.seed + 100))
    actor, critic = Actor(6, 2, args.hidden), make_critic(6, args.hidden)
    loss_module = ReinforceLoss(actor, critic)
    optim = torch.optim.Adam([{"params": actor.parameters(), "lr": args.lr},
                              {"params": critic.parameters(), "lr": args.lr}])
    start, returns = time.time(), []
    for update in range(1, args.updates + 1):
        td = rollout(env, actor, args.gamma)
        returns.append(td["reward"].view(args.horizon, -1).sum(0).mean().item())
        losses = loss_module(td)
        loss = losses["loss_actor"] + losses["loss_value"]
        optim.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(loss_module.parameters(), 1.0)
        optim.step()
        if update % 50 == 0:
            score, dist = evaluate(test_env, actor)
            print(f"update {update:4d} train return {np.mean(returns[-50:]):7.3f} eval return {score:7.3f} "
                  f"final distance {dist:.3f} value loss {losses['loss_value'].item():.4f} "
                  f"entropy {losses['entropy'].item():.3f} ({time.time() - start:.0f}s)", flush=True)


if __name__ == "__main__":
    main()

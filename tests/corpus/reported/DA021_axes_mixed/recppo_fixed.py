"""Recurrent PPO for several agents that share their parameters. Task: repeat the symbol of some steps ago."""
import argparse
import time
from typing import Dict

import numpy as np
import torch
import torch.nn as nn
from torch.distributions import Categorical


class RepeatSymbol:
    """Each agent sees a random symbol per step and gets a reward for naming the one of `delay` steps before."""

    def __init__(self, num_envs, num_agents, delay=2, num_symbols=4, length=20, seed=0):
        self.num, self.delay, self.k, self.length = num_envs * num_agents, delay, num_symbols, length
        self.rng = np.random.RandomState(seed)

    def reset(self):
        self.t = 0
        self.symbols = self.rng.randint(self.k, size=(self.length + 1, self.num))
        return self.observe()

    def observe(self):
        obs = np.zeros((self.num, self.k + 1), np.float32)
        obs[np.arange(self.num), self.symbols[self.t]] = 1.0
        obs[:, -1] = self.t / self.length
        return torch.from_numpy(obs)

    def step(self, action):
        reward = np.zeros(self.num, np.float32)
        if self.t >= self.delay:
            reward = (action.numpy() == self.symbols[self.t - self.delay]).astype(np.float32)
        self.t += 1
        return self.observe(), torch.from_numpy(reward), self.t >= self.length


class RecurrentActorCritic(nn.Module):
    def __init__(self, obs_dim, num_actions, hidden):
        super().__init__()
        self.hidden = hidden
        self.torso = nn.Sequential(nn.Linear(obs_dim, hidden), nn.ReLU())
        self.gru = nn.GRU(hidden, hidden, batch_first=True)
        self.policy = nn.Linear(hidden, num_actions)
        self.critic = nn.Linear(hidden, 1)
        nn.init.orthogonal_(self.policy.weight, 0.01)
        nn.init.zeros_(self.policy.bias)

    def initial_state(self, batch):
        return torch.zeros(1, batch, self.hidden)

    def forward(self, obs, state):
        """obs: [batch, time, obs_dim]"""
        x, state = self.gru(self.torso(obs), state)
        return Categorical(logits=self.policy(x)), self.critic(x).squeeze(-1), state


def truncated_gae(rewards, values, bootstrap, gamma, lam):
    advantages = torch.zeros_like(rewards)
    last, next_value = torch.zeros_like(bootstrap), bootstrap
    for t in reversed(range(rewards.shape[1])):
        delta = rewards[:, t] + gamma * next_value - values[:, t]
        last = delta + gamma * lam * last
        advantages[:, t] = last
        next_value = values[:, t]
    return advantages, advantages + values


class Trainer:
    def __init__(self, args):
        self.args = args
        self.env = RepeatSymbol(args.num_envs, args.num_agents, args.delay, seed=args.seed)
        self.eval_env = RepeatSymbol(64, 1, args.delay, seed=args.seed + 1)
        self.net = RecurrentActorCritic(self.env.k + 1, self.env.k, args.hidden)
        self.optimizer = torch.optim.Adam(self.net.parameters(), lr=args.lr, eps=1e-5)

    @torch.no_grad()
    def rollout(self) -> Dict[str, torch.Tensor]:
        obs, done = self.env.reset(), False
        state = self.net.initial_state(self.env.num)
        steps = []
        while not done:
            dist, value, state = self.net(obs.unsqueeze(1), state)
            action = dist.sample()
            next_obs, reward, done = self.env.step(action.squeeze(1))
            steps.append((obs, action.squeeze(1), dist.log_prob(action).squeeze(1), value.squeeze(1), reward))
            obs = next_obs
        observations, actions, log_probs, values, rewards = [torch.stack(s, 1) for s in zip(*steps)]
        # the episode has a fixed length, nothing to bootstrap from
        advantages, targets = truncated_gae(rewards, values, torch.zeros(self.env.num), self.args.gamma,
                                            self.args.gae_lambda)
        advantages = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
        return dict(observations=observations, actions=actions, behavior_log_probs=log_probs,
                    behavior_values=values, advantages=advantages, target_values=targets, rewards=rewards)

    def loss(self, mb):
        dist, values, _ = self.net(mb['observations'], self.net.initial_state(len(mb['actions'])))
        ratio = torch.exp(dist.log_prob(mb['actions']) - mb['behavior_log_probs'])
        eps = self.args.clipping_epsilon
        policy_loss = -torch.min(ratio * mb['advantages'],
                                 torch.clamp(ratio, 1 - eps, 1 + eps) * mb['advantages']).mean()
        value_loss = (values - mb['target_values']).pow(2).mean()
        entropy = dist.entropy().mean()
        return policy_loss + self.args.baseline_cost * value_loss - self.args.entropy_cost * entropy, dict(
            policy=policy_loss.item(), value=value_loss.item(), entropy=entropy.item())

    def step(self):
        batch = self.rollout()
        num_sequences, num_steps = batch['actions'].shape
        assert num_sequences % self.args.num_minibatches == 0
        infos = []
        for _ in range(self.args.num_epochs):
            permutation = torch.randperm(num_sequences)
            shuffled = {k: v[permutation] for k, v in batch.items()}
            minibatches = {k: v.reshape((self.args.num_minibatches, -1) + v.shape[1:])
                           for k, v in shuffled.items()}
            for i in range(self.args.num_minibatches):
                loss, info = self.loss({k: v[i] for k, v in minibatches.items()})
                self.optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(self.net.parameters(), self.args.max_gradient_norm)
                self.optimizer.step()
                infos.append(info)
        mean = {k: np.mean([i[k] for i in infos]) for k in infos[0]}
        mean['reward'] = batch['rewards'][:, self.args.delay:].mean().item()
        return mean

    @torch.no_grad()
    def evaluate(self):
        obs, done, total = self.eval_env.reset(), False, []
        state = self.net.initial_state(self.eval_env.num)
        while not done:
            dist, _, state = self.net(obs.unsqueeze(1), state)
            obs, reward, done = self.eval_env.step(dist.logits.argmax(-1).squeeze(1))
            total.append(reward.mean().item())
        return np.mean(total[self.args.delay:])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('--iterations', type=int, default=185)
    parser.add_argument('--num_envs', type=int, default=64)
    parser.add_argument('--num_agents', type=int, default=2)
    parser.add_argument('--delay', type=int, default=2)
    parser.add_argument('--hidden', type=int, default=64)
    parser.add_argument('--num_epochs', type=int, default=4)
    parser.add_argument('--num_minibatches', type=int, default=2)
    parser.add_argument('--lr', type=float, default=3e-3)
    parser.add_argument('--gamma', type=float, default=0.9)
    parser.add_argument('--gae_lambda', type=float, default=0.9)
    parser.add_argument('--clipping_epsilon', type=float, default=0.2)
    parser.add_argument('--baseline_cost', type=float, default=0.5)
    parser.add_argument('--entropy_cost', type=float, default=0.01)
    parser.add_argument('--max_gradient_norm', type=float, default=0.5)
    parser.add_argument('--seed', type=int, default=4)
    args = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(args.seed)

    trainer = Trainer(args)
    start = time.time()
    for it in range(1, args.iterations + 1):
        info = trainer.step()
        if it % 10 == 0:
            print('iteration %3d  reward per step %.3f  policy %.4f  value %.4f  entropy %.3f  (%.0fs)' % (
                it, info['reward'], info['policy'], info['value'], info['entropy'], time.time() - start))
        if it % 40 == 0:
            print('    evaluation: reward per step %.3f (chance %.3f)' % (trainer.evaluate(), 1 / trainer.env.k))


if __name__ == '__main__':
    main()

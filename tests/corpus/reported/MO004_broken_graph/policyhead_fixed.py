"""Continual RL baseline: a shared encoder with an actor-critic output head, on a batch of Catch games."""
import argparse
import time
from collections import deque
from dataclasses import dataclass
from typing import Deque, List

import numpy as np
import torch
from torch import Tensor, nn
from torch.distributions import Categorical


class CatchEnvs:
    """`n` boards at once. A ball falls from the top, the paddle of the last row has to be below it at the end."""

    def __init__(self, n: int, rows: int = 10, cols: int = 7, seed: int = 0):
        self.n, self.rows, self.cols = n, rows, cols
        self.rng = np.random.RandomState(seed)

    def reset(self) -> Tensor:
        self.ball_x = self.rng.randint(self.cols, size=self.n)
        self.drift = self.rng.randint(-1, 2, size=self.n)
        self.ball_y = np.zeros(self.n, int)
        self.paddle = self.rng.randint(self.cols, size=self.n)
        return self._obs()

    def _obs(self) -> Tensor:
        board = np.zeros((self.n, 1, self.rows, self.cols), np.float32)
        i = np.arange(self.n)
        board[i, 0, self.ball_y, self.ball_x] = 1.0
        board[i, 0, self.rows - 1, self.paddle] = 1.0
        return torch.from_numpy(board)

    def step(self, actions: Tensor):
        self.paddle = np.clip(self.paddle + actions.numpy() - 1, 0, self.cols - 1)
        self.ball_y = self.ball_y + 1
        moved = self.ball_x + self.drift * (self.rng.rand(self.n) < 0.4)
        self.drift = np.where((moved < 0) | (moved >= self.cols), -self.drift, self.drift)
        self.ball_x = np.clip(moved, 0, self.cols - 1)
        done = self.ball_y[0] == self.rows - 1
        reward = np.zeros(self.n, np.float32)
        if done:
            reward = np.where(self.ball_x == self.paddle, 1.0, -1.0).astype(np.float32)
        return self._obs(), torch.from_numpy(reward), bool(done)


@dataclass
class PolicyHeadOutput:
    actions: Tensor
    log_prob: Tensor
    entropy: Tensor
    value: Tensor


class SimpleConvNet(nn.Module):
    def __init__(self, rows: int, cols: int, output_size: int):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(),
            nn.Conv2d(8, 8, 3, stride=2, padding=1), nn.ReLU(), nn.Flatten())
        n = 8 * ((rows + 1) // 2) * ((cols + 1) // 2)
        self.fc = nn.Sequential(nn.Linear(n, 64), nn.ReLU(), nn.Linear(64, output_size), nn.Tanh())

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(self.features(x))


class ActorCriticHead(nn.Module):
    """Output head. Holds what it needs of the current episode in buffers until the loss is asked for."""

    def __init__(self, input_size: int, n_actions: int, gamma: float, entropy_coef: float, window: int = 64):
        super().__init__()
        self.actor = nn.Linear(input_size, n_actions)
        self.critic = nn.Linear(input_size, 1)
        self.gamma, self.entropy_coef = gamma, entropy_coef
        self.outputs: Deque[PolicyHeadOutput] = deque(maxlen=window)
        self.rewards: Deque[Tensor] = deque(maxlen=window)

    def forward(self, representations: Tensor) -> PolicyHeadOutput:
        if len(representations.shape) < 2:
            representations = representations.reshape([-1, self.actor.in_features])
        representations = representations.float()
        dist = Categorical(logits=self.actor(representations))
        actions = dist.sample()
        out = PolicyHeadOutput(actions, dist.log_prob(actions), dist.entropy(),
                               self.critic(representations).squeeze(-1))
        if self.training:
            self.outputs.append(out)
        return out

    def get_episode_loss(self):
        returns: List[Tensor] = []
        acc = torch.zeros_like(self.rewards[-1])
        for r in reversed(self.rewards):
            acc = r + self.gamma * acc
            returns.insert(0, acc)
        returns_t = torch.stack(returns)
        values = torch.stack([o.value for o in self.outputs])
        log_probs = torch.stack([o.log_prob for o in self.outputs])
        entropy = torch.stack([o.entropy for o in self.outputs]).mean()
        advantages = returns_t - values.detach()
        actor_loss = -(log_probs * advantages).mean()
        critic_loss = 0.5 * (returns_t - values).pow(2).mean()
        loss = actor_loss + critic_loss - self.entropy_coef * entropy
        self.outputs.clear()
        self.rewards.clear()
        return loss, dict(actor=actor_loss.item(), critic=critic_loss.item(), entropy=entropy.item())


class BaselineModel(nn.Module):
    def __init__(self, rows: int, cols: int, hidden_size: int, gamma: float, entropy_coef: float):
        super().__init__()
        self.encoder = SimpleConvNet(rows, cols, hidden_size)
        self.output_head = ActorCriticHead(hidden_size, 3, gamma, entropy_coef)

    def forward(self, observations: Tensor) -> PolicyHeadOutput:
        representations = self.encoder(observations)
        return self.output_head(representations)


def evaluate(model: BaselineModel, env: CatchEnvs, episodes: int = 4) -> float:
    model.eval()
    rewards = []
    with torch.no_grad():
        for _ in range(episodes):
            obs, done = env.reset(), False
            while not done:
                obs, reward, done = env.step(model(obs).actions)
            rewards.append(reward.mean().item())
    model.train()
    return float(np.mean(rewards))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('--updates', type=int, default=1300)
    parser.add_argument('--num_envs', type=int, default=64)
    parser.add_argument('--hidden_size', type=int, default=12)
    parser.add_argument('--learning_rate', type=float, default=2e-3)
    parser.add_argument('--gamma', type=float, default=0.97)
    parser.add_argument('--entropy_coef', type=float, default=0.01)
    parser.add_argument('--max_grad_norm', type=float, default=2.0)
    args = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(123)

    env = CatchEnvs(args.num_envs, seed=1)
    test_env = CatchEnvs(128, seed=2)
    model = BaselineModel(env.rows, env.cols, args.hidden_size, args.gamma, args.entropy_coef)
    optimizer = torch.optim.Adam(model.parameters(), lr=args.learning_rate)

    start = time.time()
    recent = deque(maxlen=50)
    for update in range(1, args.updates + 1):
        obs, done = env.reset(), False
        while not done:
            out = model(obs)
            obs, reward, done = env.step(out.actions)
            model.output_head.rewards.append(reward)
        recent.append(reward.mean().item())
        loss, metrics = model.output_head.get_episode_loss()
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), args.max_grad_norm)
        optimizer.step()
        if update % 50 == 0:
            print(f'update {update:5d} reward {np.mean(recent):+.3f} loss {loss.item():+.4f} '
                  f'critic {metrics["critic"]:.4f} entropy {metrics["entropy"]:.3f} '
                  f'({time.time() - start:.0f}s)')
        if update % 250 == 0:
            print(f'   evaluation: mean reward {evaluate(model, test_env):+.3f}')
    print(f'final evaluation: mean reward {evaluate(model, test_env, 16):+.3f}')


if __name__ == '__main__':
    main()

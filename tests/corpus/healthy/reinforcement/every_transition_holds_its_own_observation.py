"""A healthy training that looks odd; argument: [SEED]."""

import collections
import sys

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


class Pendulum:
    """Gives its observation in one array that it writes to at each step."""

    def __init__(self, rng):
        self.rng = rng
        self.observation = np.zeros(6, np.float32)

    def reset(self):
        self.angle, self.speed = self.rng.uniform(-np.pi, np.pi), self.rng.uniform(-1, 1)
        return self.look()

    def look(self):
        a, v = self.angle, self.speed
        self.observation[:] = np.cos(a), np.sin(a), v, v * np.cos(a), v * np.sin(a), v * v
        return self.observation

    def step(self, push):
        self.speed = 0.98 * self.speed + 0.15 * np.sin(self.angle) + 0.1 * (push - 1)
        self.angle += 0.2 * self.speed
        return self.look(), float(np.cos(self.angle) - 0.01 * self.speed**2)


def every_transition_holds_its_own_observation(seed):
    rng = np.random.default_rng(seed)
    env, memory = Pendulum(rng), collections.deque(maxlen=2000)
    value = nn.Sequential(nn.Linear(6, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 3))
    opt = torch.optim.Adam(value.parameters(), 1e-3)
    state = env.reset()
    for i in range(120):
        for k in range(8):
            action = int(rng.integers(3))
            following, reward = env.step(action)
            memory.append((state.copy(), action, reward))
            state = env.reset() if (i * 8 + k) % 50 == 49 else following
        picked = [memory[k] for k in rng.integers(len(memory), size=64)]
        states = torch.from_numpy(np.stack([p[0] for p in picked]))
        actions = torch.tensor([p[1] for p in picked])
        rewards = torch.tensor([p[2] for p in picked])
        taken = value(states).gather(1, actions[:, None])[:, 0]
        opt.zero_grad()
        F.mse_loss(taken, rewards).backward()
        opt.step()


if __name__ == "__main__":
    seed = int(sys.argv[1]) if len(sys.argv) > 1 else 0
    torch.manual_seed(seed)
    every_transition_holds_its_own_observation(seed)

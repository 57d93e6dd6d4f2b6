"""Pixel DQN with a small lab: data spaces pass states, actions and rewards between agent and environment."""
import argparse

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


class DodgeEnv:
    """Blocks fall down, the player at the bottom should collect them. Observation: last 4 frames."""

    def __init__(self, size=32, seed=0):
        self.size = size
        self.rng = np.random.default_rng(seed)

    def _frame(self):
        f = np.zeros((self.size, self.size))
        f[self.y:self.y + 4, self.x:self.x + 4] = 1.0
        f[-4:, self.px:self.px + 6] = 0.6
        return f

    def reset(self):
        self.y, self.x = 0, int(self.rng.integers(0, self.size - 4))
        self.px = int(self.rng.integers(0, self.size - 6))
        self.frames = np.stack([self._frame()] * 4)
        return self.frames.copy()

    def step(self, action):
        self.px = int(np.clip(self.px + (action - 1) * 4, 0, self.size - 6))
        self.y += 4
        self.frames = np.concatenate([self.frames[1:], self._frame()[None]])
        done = self.y + 4 >= self.size
        reward = (1.0 if self.px - 3 <= self.x <= self.px + 5 else -1.0) if done else 0.0
        return self.frames.copy(), reward, done


class DataSpace:
    """Holds the current data of one kind, e.g. all that flows from the environment to the agent."""

    def __init__(self, name):
        self.name = name
        self.data = None

    def add(self, data):
        self.data = data
        return self.data


class AEBSpace:
    def __init__(self):
        self.spaces = {name: DataSpace(name) for name in ("state", "action", "reward", "done")}

    def add(self, name, data):
        return self.spaces[name].add(np.array(data))

    def get(self, name):
        return self.spaces[name].data


class Replay:
    def __init__(self, max_size, shape):
        self.max_size = max_size
        self.states = np.zeros((max_size,) + shape, np.float16)
        self.next_states = np.zeros((max_size,) + shape, np.float16)
        self.actions = np.zeros(max_size, np.int64)
        self.rewards = np.zeros(max_size, np.float32)
        self.dones = np.zeros(max_size, np.float32)
        self.head, self.size = 0, 0

    def add(self, s, a, r, n, d):
        i = self.head
        self.states[i], self.actions[i], self.rewards[i], self.next_states[i], self.dones[i] = s, a, r, n, d
        self.head = (i + 1) % self.max_size
        self.size = min(self.size + 1, self.max_size)

    def sample(self, batch_size, rng):
        idx = rng.integers(0, self.size, batch_size)
        return (torch.from_numpy(self.states[idx].astype(np.float32)), torch.from_numpy(self.actions[idx]),
                torch.from_numpy(self.rewards[idx]), torch.from_numpy(self.next_states[idx].astype(np.float32)),
                torch.from_numpy(self.dones[idx]))


def conv_net():
    return nn.Sequential(nn.Conv2d(4, 32, 4, stride=4), nn.ReLU(), nn.Conv2d(32, 48, 3, padding=1), nn.ReLU(),
                         nn.Flatten(), nn.Linear(48 * 64, 128), nn.ReLU(), nn.Linear(128, 3))


class Agent:
    def __init__(self, args):
        self.net, self.target = conv_net(), conv_net()
        self.target.load_state_dict(self.net.state_dict())
        self.optim = torch.optim.Adam(self.net.parameters(), lr=args.lr)
        self.memory = Replay(1500, (4, 32, 32))
        self.rng = np.random.default_rng(args.seed)
        self.args = args

    @torch.no_grad()
    def act(self, state, epsilon):
        if self.rng.random() < epsilon:
            return int(self.rng.integers(3))
        return self.net(torch.from_numpy(state).float()[None]).argmax(1).item()

    def train(self):
        s, a, r, n, d = self.memory.sample(self.args.batch_size, self.rng)
        with torch.no_grad():
            y = r + 0.97 * (1 - d) * self.target(n).max(1).values
        q = self.net(s).gather(1, a[:, None]).squeeze(1)
        loss = F.smooth_l1_loss(q, y)
        self.optim.zero_grad()
        loss.backward()
        self.optim.step()
        return loss.item()


def evaluate(agent, episodes=60):
    env = DodgeEnv(seed=999)
    total = 0.0
    for _ in range(episodes):
        state, done = env.reset(), False
        while not done:
            state, reward, done = env.step(agent.act(state, 0.0))
        total += reward
    return total / episodes


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--max-frame", type=int, default=8000)
    parser.add_argument("--train-start", type=int, default=800)
    parser.add_argument("--train-frequency", type=int, default=6)
    parser.add_argument("--target-frequency", type=int, default=480)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--lr", type=float, default=5e-4)
    parser.add_argument("--seed", type=int, default=2)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    torch.set_num_threads(1)

    env, agent, aeb_space = DodgeEnv(seed=args.seed), Agent(args), AEBSpace()
    state = aeb_space.add("state", env.reset())
    losses = [0.0]
    for frame in range(1, args.max_frame + 1):
        epsilon = max(0.05, 1.0 - frame / 5000)
        action = aeb_space.add("action", agent.act(state, epsilon))
        next_state, reward, done = env.step(int(action))
        aeb_space.add("reward", reward)
        aeb_space.add("done", done)
        next_state = aeb_space.add("state", next_state)
        agent.memory.add(state, int(action), reward, next_state, done)
        state = aeb_space.add("state", env.reset()) if aeb_space.get("done") else next_state
        if frame >= args.train_start:
            if frame % args.train_frequency == 0:
                losses.append(agent.train())
            if frame % args.target_frequency == 0:
                agent.target.load_state_dict(agent.net.state_dict())
        if frame % 1000 == 0:
            print(f"frame {frame} loss {np.mean(losses[-100:]):.4f} eval reward {evaluate(agent):.2f}", flush=True)


if __name__ == "__main__":
    main()

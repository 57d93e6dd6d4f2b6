"""DQN with prioritised replay (Rainbow style memory) on the game of catch."""
import argparse
import random

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim


class Catch:
    """A ball falls, the paddle on the last row has to be under it."""

    def __init__(self, size=9, seed=0):
        self.size = size
        self.rng = np.random.default_rng(seed)

    def _obs(self):
        obs = torch.zeros(2, self.size, self.size)
        obs[0, self.y, self.x] = 1.0
        obs[1, -1, self.paddle] = 1.0
        return obs

    def reset(self):
        self.y, self.x = 0, int(self.rng.integers(self.size))
        self.paddle = int(self.rng.integers(self.size))
        return self._obs()

    def step(self, action):
        self.paddle = min(max(self.paddle + action - 1, 0), self.size - 1)
        self.y += 1
        self.x = min(max(self.x + int(self.rng.integers(-1, 2)), 0), self.size - 1)
        done = self.y == self.size - 1
        reward = (1.0 if abs(self.x - self.paddle) <= 1 else -1.0) if done else 0.0
        return self._obs(), reward, done


class SegmentTree:
    """Stores data in a cyclic array and the priorities in a sum tree."""

    def __init__(self, size):
        self.index = 0
        self.size = size
        self.full = False
        self.sum_tree = [0] * (2 * size - 1)
        self.data = [None] * size
        self.max = 1

    def _propagate(self, index):
        while index != 0:
            index = (index - 1) // 2
            self.sum_tree[index] = self.sum_tree[2 * index + 1] + self.sum_tree[2 * index + 2]

    def update(self, index, value):
        self.sum_tree[index] = value
        self._propagate(index)
        self.max = max(value, self.max)

    def append(self, data, value):
        self.data[self.index] = data
        self.update(self.index + self.size - 1, value)
        self.index = (self.index + 1) % self.size
        self.full = self.full or self.index == 0

    def find(self, value):
        index = 0
        while 2 * index + 1 < len(self.sum_tree):
            left = 2 * index + 1
            if value <= self.sum_tree[left]:
                index = left
            else:
                value = value - self.sum_tree[left]
                index = left + 1
        return self.sum_tree[index], index - self.size + 1, index

    def total(self):
        return self.sum_tree[0]


class ReplayMemory:
    def __init__(self, capacity, priority_exponent=0.5):
        self.capacity = capacity
        self.priority_exponent = priority_exponent
        self.transitions = SegmentTree(capacity)

    def append(self, state, action, reward, next_state, done):
        state = (state * 255).to(torch.uint8).numpy()
        next_state = (next_state * 255).to(torch.uint8).numpy()
        self.transitions.append((state, action, reward, next_state, done), self.transitions.max)

    def sample(self, batch_size, beta):
        p_total = float(self.transitions.total())
        segment = p_total / batch_size
        probs, idxs, batch = [], [], []
        while len(batch) < batch_size:
            i = len(batch)
            p, data_idx, tree_idx = self.transitions.find(random.uniform(i * segment, (i + 1) * segment))
            if data_idx < self.capacity and self.transitions.data[data_idx] is not None and p > 0:
                probs.append(float(p))
                idxs.append(tree_idx)
                batch.append(self.transitions.data[data_idx])
        s, a, r, n, d = zip(*batch)
        n_stored = self.capacity if self.transitions.full else self.transitions.index
        weights = (n_stored * np.array(probs) / p_total) ** -beta
        return (idxs, torch.from_numpy(np.stack(s)).float() / 255, torch.tensor(a), torch.tensor(r),
                torch.from_numpy(np.stack(n)).float() / 255, torch.tensor(d, dtype=torch.float32),
                torch.tensor(weights / weights.max(), dtype=torch.float32))

    def update_priorities(self, idxs, priorities):
        priorities = priorities ** self.priority_exponent
        for idx, priority in zip(idxs, priorities):
            self.transitions.update(idx, priority)


class DQN(nn.Module):
    def __init__(self, size, actions=3):
        super().__init__()
        self.net = nn.Sequential(nn.Conv2d(2, 32, 3, padding=1), nn.ReLU(),
                                 nn.Conv2d(32, 32, 3, stride=2, padding=1), nn.ReLU(), nn.Flatten(),
                                 nn.Linear(32 * ((size + 1) // 2) ** 2, 256), nn.ReLU(), nn.Linear(256, actions))

    def forward(self, x):
        return self.net(x)


def learn(online, target, mem, optimiser, args, beta):
    idxs, states, actions, returns, next_states, terminals, weights = mem.sample(args.batch_size, beta)
    with torch.no_grad():
        best = online(next_states).argmax(1, keepdim=True)
        q_next = target(next_states).gather(1, best).squeeze(1)
        y = returns + args.discount * (1 - terminals) * q_next
    q = online(states).gather(1, actions[:, None]).squeeze(1)
    loss = F.smooth_l1_loss(q, y, reduction="none")
    optimiser.zero_grad()
    (weights * loss).mean().backward()
    nn.utils.clip_grad_norm_(online.parameters(), 10)
    optimiser.step()
    mem.update_priorities(idxs, loss.detach().numpy() + 1e-3)
    return loss.mean().item()


@torch.no_grad()
def evaluate(online, size, episodes=100):
    env = Catch(size, seed=10_000)
    total = 0.0
    for _ in range(episodes):
        state, done = env.reset(), False
        while not done:
            state, reward, done = env.step(online(state[None]).argmax(1).item())
        total += reward
    return total / episodes


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--t-max", type=int, default=10000)
    parser.add_argument("--learn-start", type=int, default=1000)
    parser.add_argument("--replay-frequency", type=int, default=6)
    parser.add_argument("--target-update", type=int, default=600)
    parser.add_argument("--memory-capacity", type=int, default=8192)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--discount", type=float, default=0.98)
    parser.add_argument("--lr", type=float, default=5e-4)
    parser.add_argument("--seed", type=int, default=123)
    args = parser.parse_args()
    random.seed(args.seed)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)
    torch.set_num_threads(1)

    env = Catch(seed=args.seed)
    online, target = DQN(env.size), DQN(env.size)
    target.load_state_dict(online.state_dict())
    for p in target.parameters():
        p.requires_grad_(False)
    optimiser = optim.Adam(online.parameters(), lr=args.lr, eps=1.5e-4)
    mem = ReplayMemory(args.memory_capacity)
    state, losses = env.reset(), []
    for t in range(1, args.t_max + 1):
        epsilon = max(0.05, 1.0 - t / 5000)
        if random.random() < epsilon:
            action = random.randrange(3)
        else:
            with torch.no_grad():
                action = online(state[None]).argmax(1).item()
        next_state, reward, done = env.step(action)
        mem.append(state, action, reward, next_state, done)
        state = env.reset() if done else next_state
        if t >= args.learn_start:
            if t % args.replay_frequency == 0:
                beta = 0.4 + 0.6 * t / args.t_max
                losses.append(learn(online, target, mem, optimiser, args, beta))
            if t % args.target_update == 0:
                target.load_state_dict(online.state_dict())
        if t % 1000 == 0:
            online.eval()
            score = evaluate(online, env.size)
            online.train()
            print(f"T = {t} / {args.t_max} | loss {np.mean(losses[-100:] or [0]):.4f} | avg. reward {score:.2f}",
                  flush=True)


if __name__ == "__main__":
    main()

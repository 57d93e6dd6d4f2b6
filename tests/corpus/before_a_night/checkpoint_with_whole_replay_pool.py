"""Q-learning from pixels in a small grid room, with a replay pool and a checkpoint after every epoch."""
import argparse
import copy
import glob
import os
import random

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

GRID, CELL, ACTIONS = 6, 3, 4
SIDE = GRID * CELL
MOVES = np.array([[-1, 0], [1, 0], [0, -1], [0, 1]])
FIELDS = ("observations", "actions", "rewards", "next_observations", "terminals")


class GridRoom:
    """Vectorised room: walk to the goal; reward is the change of distance and a bonus at the goal."""

    def __init__(self, n, rng):
        self.n, self.rng = n, rng
        self.agent, self.goal = np.zeros((n, 2), int), np.zeros((n, 2), int)
        self.reset(np.ones(n, bool))

    def reset(self, mask):
        self.agent[mask] = self.rng.integers(0, GRID, (mask.sum(), 2))
        self.goal[mask] = (self.agent[mask] + self.rng.integers(1, GRID, (mask.sum(), 2))) % GRID

    def render(self):
        frame = np.zeros((self.n, 2, GRID, GRID), dtype=np.uint8)
        idx = np.arange(self.n)
        frame[idx, 0, self.agent[:, 0], self.agent[:, 1]] = 255
        frame[idx, 1, self.goal[:, 0], self.goal[:, 1]] = 255
        return frame.repeat(CELL, 2).repeat(CELL, 3)

    def step(self, action):
        before = np.abs(self.agent - self.goal).sum(1)
        self.agent = np.clip(self.agent + MOVES[action], 0, GRID - 1)
        after = np.abs(self.agent - self.goal).sum(1)
        done = after == 0
        reward = 0.2 * (before - after) + 1.0 * done
        nxt = self.render()
        self.reset(done)
        return reward.astype(np.float32), nxt, done


class ReplayPool:
    def __init__(self, max_size):
        frame = (max_size, 2, SIDE, SIDE)
        self.max_size, self.pointer, self.size, self.since_save = max_size, 0, 0, 0
        self.data = {"observations": np.zeros(frame, np.uint8), "actions": np.zeros(max_size, np.int64),
                     "rewards": np.zeros(max_size, np.float32), "next_observations": np.zeros(frame, np.uint8),
                     "terminals": np.zeros(max_size, bool)}

    def __len__(self):
        return self.size

    def add(self, **batch):
        n = len(batch["actions"])
        index = (self.pointer + np.arange(n)) % self.max_size
        for f in FIELDS:
            self.data[f][index] = batch[f]
        self.pointer = (self.pointer + n) % self.max_size
        self.size = min(self.size + n, self.max_size)
        self.since_save += n

    def sample(self, size, rng):
        i = rng.integers(0, self.size, size)
        obs, act, rew, nxt, done = (torch.from_numpy(self.data[f][i]) for f in FIELDS)
        return obs.float() / 255, act, rew, nxt.float() / 255, done.float()

    def experience_to_save(self):
        count = self.size
        index = (self.pointer - count + np.arange(count)) % self.max_size
        self.since_save = 0
        return {f: torch.from_numpy(v[index]) for f, v in self.data.items()}

    def restore(self, paths):
        for path in paths:
            saved = torch.load(path, weights_only=False)["replay_pool"]
            self.add(**{f: v.numpy() for f, v in saved.items()})
        self.since_save = 0


class QNetwork(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.conv = nn.Sequential(nn.Conv2d(2, width, CELL, stride=CELL), nn.ReLU(),
                                  nn.Conv2d(width, width, 3, padding=1), nn.ReLU())
        self.head = nn.Sequential(nn.Linear(width * GRID * GRID, 64), nn.ReLU(), nn.Linear(64, ACTIONS))

    def forward(self, obs):
        return self.head(self.conv(obs).flatten(1))


def td_loss(q, target, batch, discount):
    obs, act, rew, nxt, done = batch
    with torch.no_grad():
        value = rew + discount * (1 - done) * target(nxt).max(1).values
    return F.smooth_l1_loss(q(obs).gather(1, act.unsqueeze(1)).squeeze(1), value)


@torch.no_grad()
def act(q, obs, epsilon, rng):
    greedy = q(torch.from_numpy(obs).float() / 255).argmax(1).numpy()
    return np.where(rng.random(len(obs)) < epsilon, rng.integers(0, ACTIONS, len(obs)), greedy)


def interact(env, pool, obs, action):
    reward, nxt, done = env.step(action)
    pool.add(observations=obs, actions=action, rewards=reward, next_observations=nxt, terminals=done)
    return reward.mean()


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--epochs", type=int, default=400)
    p.add_argument("--epoch-length", type=int, default=12)
    p.add_argument("--envs", type=int, default=32)
    p.add_argument("--batch-size", type=int, default=128)
    p.add_argument("--initial-exploration", type=int, default=1280)
    p.add_argument("--pool-size", type=int, default=60000)
    p.add_argument("--lr", type=float, default=1e-3)
    p.add_argument("--discount", type=float, default=0.9)
    p.add_argument("--seed", type=int, default=9)
    p.add_argument("--dir", default="checkpoints")
    args = p.parse_args()
    random.seed(args.seed)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)
    rng = np.random.default_rng(args.seed)
    os.makedirs(args.dir, exist_ok=True)

    env, pool = GridRoom(args.envs, rng), ReplayPool(args.pool_size)
    q = QNetwork()
    target = copy.deepcopy(q).requires_grad_(False)
    optimizer = torch.optim.Adam(q.parameters(), lr=args.lr)
    paths = sorted(glob.glob(os.path.join(args.dir, "checkpoint_*.pt")))
    first = 0
    if paths:
        state = torch.load(paths[-1], weights_only=False)
        q.load_state_dict(state["q"])
        target.load_state_dict(state["target"])
        optimizer.load_state_dict(state["optimizer"])
        rng.bit_generator.state = state["rng"]
        env.agent, env.goal = state["env"]
        pool.restore(paths[-1:])
        first = state["epoch"] + 1
    else:
        for _ in range(args.initial_exploration // args.envs):
            interact(env, pool, env.render(), rng.integers(0, ACTIONS, args.envs))

    for epoch in range(first, args.epochs):
        epsilon = max(0.05, 1.0 - epoch / 100)
        losses, rewards = [], []
        for _ in range(args.epoch_length):
            obs = env.render()
            rewards.append(interact(env, pool, obs, act(q, obs, epsilon, rng)))
            loss = td_loss(q, target, pool.sample(args.batch_size, rng), args.discount)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            with torch.no_grad():
                for tp, qp in zip(target.parameters(), q.parameters()):
                    tp.lerp_(qp, 0.02)
            losses.append(loss.item())
        print(f"epoch {epoch} td_loss {np.mean(losses):.4f} reward {np.mean(rewards):.3f} pool {len(pool)}", flush=True)
        torch.save({"q": q.state_dict(), "target": target.state_dict(), "optimizer": optimizer.state_dict(),
                    "rng": rng.bit_generator.state, "env": (env.agent, env.goal), "epoch": epoch,
                    "replay_pool": pool.experience_to_save()}, os.path.join(args.dir, f"checkpoint_{epoch:04d}.pt"))


if __name__ == "__main__":
    main()

"""Behaviour cloning of a path planner on grid maps.

Experts walk shortest paths; the policy sees map, own place and goal and learns the expert's move for every step
of the trajectory. Trajectories have different lengths, the loss is a mean over all valid steps of the global batch.
"""
import argparse
import time
from collections import deque
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)

MOVES = np.array([(-1, 0), (1, 0), (0, -1), (0, 1)])
IGNORE = -100


def distances(walls, goal):
    dist = np.full(walls.shape, -1)
    dist[goal] = 0
    queue = deque([goal])
    while queue:
        y, x = queue.popleft()
        for dy, dx in MOVES:
            v, u = y + dy, x + dx
            if 0 <= v < len(walls) and 0 <= u < len(walls) and not walls[v, u] and dist[v, u] < 0:
                dist[v, u] = dist[y, x] + 1
                queue.append((v, u))
    return dist


def make_trajectory(rng, size, max_len):
    while True:
        walls = rng.random((size, size)) < 0.25
        free = np.argwhere(~walls)
        goal, place = (tuple(int(i) for i in free[k]) for k in rng.choice(len(free), 2, replace=False))
        dist = distances(walls, goal)
        if 2 <= dist[place] <= max_len:
            break
    obs, act = [], []
    while place != goal:
        view = np.zeros((3, size, size), np.float32)
        view[0] = walls
        view[1][place] = 1
        view[2][goal] = 1
        best = []
        for k, (dy, dx) in enumerate(MOVES):
            v, u = place[0] + dy, place[1] + dx
            if 0 <= v < size and 0 <= u < size and dist[v, u] == dist[place] - 1:
                best.append((k, (v, u)))
        k, nxt = best[0]
        obs.append(view)
        act.append(k)
        place = nxt
    return torch.from_numpy(np.stack(obs)), torch.tensor(act)


def make_set(count, size, max_len, seed):
    rng = np.random.default_rng(seed)
    return [make_trajectory(rng, size, max_len) for _ in range(count)]


def collate(trajectories):
    """Pads to the longest trajectory. obs (B, T, 3, S, S), actions (B, T) with IGNORE as padding."""
    longest = max(len(a) for _, a in trajectories)
    size = trajectories[0][0].shape[-1]
    obs = torch.zeros(len(trajectories), longest, 3, size, size)
    act = torch.full((len(trajectories), longest), IGNORE)
    for i, (o, a) in enumerate(trajectories):
        obs[i, :len(o)], act[i, :len(a)] = o, a
    return obs, act


class PolicyNet(nn.Module):
    def __init__(self, size, width=24):
        super().__init__()
        self.conv_in = nn.Conv2d(4, width, 3, padding=1)
        self.body = nn.ModuleList(nn.Conv2d(width, width, 3, padding=1) for _ in range(4))
        self.head = nn.Sequential(nn.Linear(2 * width, 64), nn.ReLU(), nn.Linear(64, len(MOVES)))
        self.register_buffer("inner", torch.ones(1, 1, size, size))

    def forward(self, obs):
        b, t = obs.shape[:2]
        x = obs.flatten(0, 1)
        h = F.relu(self.conv_in(torch.cat([x, self.inner.expand(len(x), -1, -1, -1)], 1)))
        for conv in self.body:
            h = h + F.relu(conv(h))
        here = (h * x[:, 1:2]).sum((2, 3))  # features at the own place
        return self.head(torch.cat([here, h.amax((2, 3))], 1)).view(b, t, -1)


@dataclass
class Config:
    lr: float = 3e-3
    steps: int = 200
    warmup: int = 20
    trajectories_per_step: int = 64
    micro_batch: int = 8


class PolicyTrainer:
    """forward_backward is called for every micro-batch, optim_step once for the whole batch."""

    def __init__(self, model, config):
        self.model = model
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=config.lr, betas=(0.9, 0.95), weight_decay=0.0)
        self.lr_scheduler = torch.optim.lr_scheduler.LambdaLR(self.optimizer, lambda s: min(
            (s + 1) / config.warmup, max(0.02, (config.steps - s) / (config.steps - config.warmup))))
        self.policy_version = 0

    def forward_backward(self, obs, actions, num_global_valid_tokens):
        self.model.train()
        logits = self.model(obs)
        loss = F.cross_entropy(logits.flatten(0, 1), actions.flatten(), ignore_index=IGNORE, reduction="sum")
        loss = loss / num_global_valid_tokens

        self.optimizer.zero_grad()
        loss.backward()
        return loss.item()

    def optim_step(self):
        grad_norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(), max_norm=20.0)
        self.optimizer.step()
        self.lr_scheduler.step()

        self.policy_version += 1
        return grad_norm.item()

    @torch.no_grad()
    def evaluate(self, data, batch=64):
        self.model.eval()
        loss, correct, tokens = 0.0, 0, 0
        for i in range(0, len(data), batch):
            obs, actions = collate(data[i:i + batch])
            logits = self.model(obs)
            loss += F.cross_entropy(logits.flatten(0, 1), actions.flatten(), ignore_index=IGNORE, reduction="sum").item()
            valid = actions != IGNORE
            correct += (logits.argmax(-1) == actions)[valid].sum().item()
            tokens += valid.sum().item()
        return loss / tokens, correct / tokens


class Sampler:
    """Endless stream of trajectories, shuffled anew for every pass."""

    def __init__(self, data, seed):
        self.data, self.rng, self.order = data, np.random.default_rng(seed), []

    def take(self, n):
        if len(self.order) < n:
            self.order = self.rng.permutation(len(self.data)).tolist()
        picked, self.order = self.order[:n], self.order[n:]
        return [self.data[i] for i in picked]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--size", type=int, default=8)
    parser.add_argument("--train", type=int, default=3840)
    parser.add_argument("--val", type=int, default=320)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    config = Config()

    torch.manual_seed(args.seed)
    start = time.time()
    train = make_set(args.train, args.size, 12, seed=args.seed + 1)
    val = make_set(args.val, args.size, 12, seed=args.seed + 2)
    print(f"data ready after {time.time() - start:.1f}s, mean length {np.mean([len(a) for _, a in train]):.1f}")

    trainer = PolicyTrainer(PolicyNet(args.size), config)
    sampler = Sampler(train, args.seed + 3)
    for step in range(1, config.steps + 1):
        batch = sampler.take(config.trajectories_per_step)
        num_valid = sum(len(a) for _, a in batch)
        loss = 0.0
        for i in range(0, len(batch), config.micro_batch):
            obs, actions = collate(batch[i:i + config.micro_batch])
            loss += trainer.forward_backward(obs, actions, num_valid)
        grad_norm = trainer.optim_step()
        if step % 20 == 0:
            print(f"step {step:4d}  loss {loss:.4f}  grad_norm {grad_norm:.4f}  ", end="")
            val_loss, acc = trainer.evaluate(val)
            print(f"val_loss {val_loss:.4f}  val_acc {acc:.4f}  {time.time() - start:.1f}s")


if __name__ == "__main__":
    main()

"""World model for a pixel-free control task: a recurrent model predicts next observation, reward and end from actions."""
import argparse
import glob
import os
import random
import re

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

OBS, ACT = 6, 2


def collect_episodes(n, length, seed):
    """Two coupled driven pendulums under a smooth random policy."""
    rng = np.random.default_rng(seed)
    th, om = rng.uniform(-1.5, 1.5, (n, 2)), rng.normal(0, 0.5, (n, 2))
    a, obs, act, rew = np.zeros((n, ACT)), [], [], []
    for _ in range(length):
        a = 0.8 * a + 0.6 * rng.standard_normal((n, ACT))
        acc = -2.0 * np.sin(th) - 0.1 * om + 0.5 * (th[:, ::-1] - th) + np.clip(a, -1.5, 1.5)
        obs.append(np.concatenate([np.sin(th), np.cos(th), om / 2], 1))
        act.append(a)
        om = om + 0.15 * acc
        th = th + 0.15 * om
        rew.append(np.cos(th).sum(1) - 0.05 * (om ** 2).sum(1))
    stack = lambda x: torch.tensor(np.stack(x, 1), dtype=torch.float32)
    return stack(obs), stack(act), stack(rew)


class WorldModel(nn.Module):
    def __init__(self, hidden=256, units=320):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(OBS + ACT, units), nn.SiLU(), nn.Linear(units, units), nn.SiLU())
        self.recurrent = nn.GRU(units, hidden, batch_first=True)
        self.obs_head = nn.Sequential(nn.Linear(hidden, units), nn.SiLU(), nn.Linear(units, OBS))
        self.reward_head = nn.Sequential(nn.Linear(hidden, units), nn.SiLU(), nn.Linear(units, 1))

    def forward(self, obs, act):
        h, _ = self.recurrent(self.encoder(torch.cat([obs, act], -1)))
        return obs + self.obs_head(h), self.reward_head(h).squeeze(-1)


def world_loss(model, obs, act, rew):
    next_obs, reward = model(obs[:, :-1], act[:, :-1])
    return F.mse_loss(next_obs, obs[:, 1:]) + 0.5 * F.mse_loss(reward, rew[:, :-1])


class CheckpointCallback:
    """Writes ckpt_<step>.ckpt."""

    def __init__(self, folder):
        self.folder = folder
        os.makedirs(folder, exist_ok=True)

    def files(self):
        found = glob.glob(os.path.join(self.folder, "ckpt_*.ckpt"))
        return sorted(found, key=lambda f: int(re.search(r"ckpt_(\d+)", f).group(1)))

    def save(self, step, state):
        torch.save(state, os.path.join(self.folder, f"ckpt_{step}.ckpt"))

    def newest(self):
        found = self.files()
        return found[-1] if found else None


def sample_batch(obs, act, rew, size, seq, gen):
    ep = torch.randint(0, len(obs), (size,), generator=gen)
    t0 = torch.randint(0, obs.size(1) - seq, (size,), generator=gen)
    t = t0.unsqueeze(1) + torch.arange(seq)
    e = ep.unsqueeze(1)
    return obs[e, t], act[e, t], rew[e, t]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--total-steps", type=int, default=40000)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--sequence-length", type=int, default=16)
    parser.add_argument("--lr", type=float, default=4e-4)
    parser.add_argument("--checkpoint-every", type=int, default=10)
    parser.add_argument("--test-every", type=int, default=20)
    parser.add_argument("--seed", type=int, default=5)
    parser.add_argument("--log-dir", default="logs_world_model")
    args = parser.parse_args()
    random.seed(args.seed)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)

    train = collect_episodes(400, 100, seed=1)
    test = collect_episodes(32, 40, seed=2)
    model = WorldModel()
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr, eps=1e-6)
    gen = torch.Generator().manual_seed(args.seed)
    ckpt = CheckpointCallback(os.path.join(args.log_dir, "checkpoint"))
    step = 0
    if ckpt.newest():
        state = torch.load(ckpt.newest())
        model.load_state_dict(state["world_model"])
        optimizer.load_state_dict(state["optimizer"])
        gen.set_state(state["sampler"])
        torch.set_rng_state(state["rng"])
        step = state["step"]
        print("resumed from", ckpt.newest())
    while step < args.total_steps:
        model.train()
        loss = world_loss(model, *sample_batch(*train, args.batch_size, args.sequence_length, gen))
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 10.0)
        optimizer.step()
        step += 1
        if step % 5 == 0:
            print(f"step {step} world loss {loss.item():.5f}", flush=True)
        if step % args.test_every == 0:
            model.eval()
            with torch.no_grad():
                print(f"step {step} test loss {world_loss(model, *test).item():.5f}", flush=True)
        if step % args.checkpoint_every == 0:
            ckpt.save(step, {"world_model": model.state_dict(), "optimizer": optimizer.state_dict(),
                             "sampler": gen.get_state(), "rng": torch.get_rng_state(), "step": step})


if __name__ == "__main__":
    main()

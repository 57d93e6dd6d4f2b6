"""A healthy training that looks odd; argument: [SEED]."""

import copy
import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


def step(opt, loss, clip=None):
    opt.zero_grad()
    loss.backward()
    if clip:
        nn.utils.clip_grad_norm_([p for g in opt.param_groups for p in g["params"]], clip)
    opt.step()
    return loss.item()


def q_learning():
    q = nn.Sequential(nn.Linear(4, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 2))
    target = copy.deepcopy(q)
    opt = torch.optim.Adam(q.parameters(), 1e-3)
    replay, state, explore = [], torch.randn(4) * 0.05, 1.0
    for i in range(400):
        with torch.no_grad():
            action = int(q(state[None]).argmax()) if torch.rand(1) > explore else int(torch.randint(2, (1,)))
        push = (action * 2 - 1) * 0.1
        nxt = state + 0.1 * torch.tensor([float(state[1]), push, float(state[3]), -push]) + 0.02 * torch.randn(4)
        done = bool(nxt[0].abs() > 0.5 or nxt[2].abs() > 0.5)
        replay.append((state, action, 0.0 if done else 1.0, nxt, float(done)))
        replay = replay[-1000:]
        state = torch.randn(4) * 0.05 if done else nxt
        explore = max(0.05, explore * 0.99)
        if len(replay) < 64:
            continue
        picked = [replay[k] for k in torch.randint(len(replay), (32,)).tolist()]
        s, a, r, s2, d = (torch.stack([torch.as_tensor(row[k]) for row in picked]) for k in range(5))
        with torch.no_grad():
            goal = r + 0.99 * (1 - d) * target(s2).max(1).values
        step(opt, F.smooth_l1_loss(q(s).gather(1, a[:, None])[:, 0], goal), 10.0)
        if i % 50 == 0:
            target.load_state_dict(q.state_dict())


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    q_learning()

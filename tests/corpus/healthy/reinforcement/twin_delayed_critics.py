"""A healthy training that looks odd; argument: [SEED]."""

import copy
import sys

import torch
import torch.nn.functional as F
from torch import nn, optim

torch.set_num_threads(1)


def plain(width=10, hidden=48, out=4, act=nn.ReLU):
    return nn.Sequential(nn.Linear(width, hidden), act(), nn.Linear(hidden, hidden), act(), nn.Linear(hidden, out))


def update(opt, loss):
    opt.zero_grad()
    loss.backward()
    opt.step()


def twin_delayed_critics():
    """Actor steps every second time, targets follow slowly, and the value of a state grows for a long while."""
    actor, critics = nn.Sequential(plain(3, 48, 1), nn.Tanh()), nn.ModuleList(plain(4, 48, 1) for _ in range(2))
    slow_actor, slow_critics = copy.deepcopy(actor), copy.deepcopy(critics)
    opt_a, opt_c = optim.Adam(actor.parameters(), 1e-3), optim.Adam(critics.parameters(), 1e-3)
    state, memory = torch.randn(3), []
    for step in range(240):
        with torch.no_grad():
            action = (actor(state) + 0.3 * torch.randn(1)).clamp(-1, 1)
        after = 0.9 * state + 0.3 * action + 0.05 * torch.randn(3)
        memory.append((state, action, 5 - after.square().sum(), after))
        state = after if step % 50 else torch.randn(3)
        if len(memory) < 48:
            continue
        rows = [memory[i] for i in torch.randint(len(memory), (32,)).tolist()]
        s, a, r, n = (torch.stack(column) for column in zip(*rows, strict=True))
        with torch.no_grad():
            na = (slow_actor(n) + (0.2 * torch.randn(32, 1)).clamp(-0.5, 0.5)).clamp(-1, 1)
            goal = r[:, None] + 0.97 * torch.min(*(c(torch.cat([n, na], 1)) for c in slow_critics))
        update(opt_c, sum(F.mse_loss(c(torch.cat([s, a], 1)), goal) for c in critics))
        if step % 2 == 0:
            update(opt_a, -critics[0](torch.cat([s, actor(s)], 1)).mean())
            with torch.no_grad():
                for slow, fast in ((slow_actor, actor), (slow_critics, critics)):
                    for p, q in zip(slow.parameters(), fast.parameters(), strict=True):
                        p.lerp_(q, 0.01)


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    twin_delayed_critics()

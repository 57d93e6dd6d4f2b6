"""A healthy training that looks odd; argument: [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


def critic_that_begins_later():
    """A model of the world with two losses in each step, and a critic of its own optimizer that joins after 80 steps."""
    world = nn.GRUCell(5, 32)
    read, gain = nn.Linear(32, 4), nn.Linear(32, 1)
    critic = nn.Sequential(nn.Linear(32, 32), nn.ELU(), nn.Linear(32, 1))
    build = torch.optim.Adam([*world.parameters(), *read.parameters(), *gain.parameters()], lr=3e-3)
    judge = torch.optim.Adam(critic.parameters(), lr=2e-3)
    turn = torch.randn(4, 4) / 3
    for i in range(240):
        seen, h, loss, states, gains = torch.randn(24, 4), torch.zeros(24, 32), 0.0, [], []
        for _ in range(6):
            act = torch.randn(24, 1)
            h = world(torch.cat([seen, act], 1), h)
            seen = torch.tanh(seen @ turn + 0.5 * act)
            reward = seen.square().mean(1)
            loss = loss + F.mse_loss(read(h), seen) + F.mse_loss(gain(h)[:, 0], reward)
            states.append(h.detach())
            gains.append(reward)
        build.zero_grad()
        (loss / 6).backward()
        build.step()
        if i < 80:
            continue
        returns = torch.stack(gains).flip(0).cumsum(0).flip(0)
        judged = F.mse_loss(critic(torch.stack(states))[:, :, 0], returns)
        judge.zero_grad()
        judged.backward()
        judge.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    critic_that_begins_later()

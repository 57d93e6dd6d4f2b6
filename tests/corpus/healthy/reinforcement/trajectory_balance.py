"""A healthy training that looks odd; argument: [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


def trajectory_balance():
    """Choices of three digits in proportion to a reward, by trajectory balance."""
    reward = 0.1 + torch.rand(4, 4, 4)
    policy = nn.Sequential(nn.Linear(15, 32), nn.LeakyReLU(), nn.Linear(32, 4))
    constant = nn.Parameter(torch.zeros(1))
    opt = torch.optim.Adam([{"params": policy.parameters(), "lr": 3e-3}, {"params": [constant], "lr": 5e-2}])
    for _ in range(45):
        chosen = torch.zeros(32, 0, dtype=torch.long)
        total = torch.zeros(32)
        for place in range(3):
            seen = torch.zeros(32, 15)
            for j in range(place):
                seen[:, 5 * j : 5 * j + 4] = F.one_hot(chosen[:, j], 4).float()
            scores = policy(seen)
            drawn = torch.multinomial(scores.detach().softmax(-1), 1)
            total = total + scores.log_softmax(-1).gather(1, drawn)[:, 0]
            chosen = torch.cat([chosen, drawn], 1)
        wanted = reward[chosen[:, 0], chosen[:, 1], chosen[:, 2]].log()
        loss = (constant + total - wanted).square().mean()
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    trajectory_balance()

"""A healthy training that looks odd; argument: [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


def tasks_with_an_optimizer_each():
    """Three tasks in turn, each with classes of its own and a fresh Adam; some of the old samples come again."""
    net = nn.Sequential(nn.Linear(16, 96), nn.ReLU(), nn.Linear(96, 96), nn.ReLU(), nn.Linear(96, 9))
    centres = torch.randn(9, 16) * 1.4
    memory = []
    for task in range(3):
        opt = torch.optim.Adam(net.parameters(), lr=1.5e-3)
        for i in range(80):
            y = torch.randint(3 * task, 3 * task + 3, (64,))
            x = centres[y] + torch.randn(64, 16)
            for old_x, old_y in memory:
                x, y = torch.cat([x, old_x]), torch.cat([y, old_y])
            loss = F.cross_entropy(net(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            if i == 79:
                memory.append((x[:12], y[:12]))


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    tasks_with_an_optimizer_each()

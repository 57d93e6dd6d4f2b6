"""A healthy training that looks odd; argument: [SEED]."""

import collections
import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


class Net(nn.Module):
    def __init__(self, width=12, hidden=32, classes=4):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(width, hidden), nn.LayerNorm(hidden), nn.GELU())
        self.head = nn.Linear(hidden, classes)

    def forward(self, x):
        return self.head(self.body(x))


def replay_buffer():
    policy = Net(width=6, classes=3)
    opt = torch.optim.Adam(policy.parameters(), 1e-3)
    buffer = collections.deque(maxlen=400)
    for _ in range(60):
        with torch.no_grad():
            for _ in range(8):
                state = torch.randn(6)
                buffer.append((state, policy(state[None]).argmax(1), torch.randn(())))
        picked = [buffer[k] for k in torch.randint(len(buffer), (16,))]
        states, actions, rewards = (torch.stack(part) for part in zip(*picked, strict=True))
        value = policy(states).gather(1, actions)[:, 0]
        opt.zero_grad()
        F.smooth_l1_loss(value, rewards).backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    replay_buffer()

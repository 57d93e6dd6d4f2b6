"""A training with the fault periodic-stall; arguments: [ONSET] [SEED]."""

import sys
import time

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


def sorts_a_memory_of_transitions_now_and_then(s):
    """From s on the priorities of all transitions are sorted anew every ninth step, between two updates."""
    q, target = (nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, 3)) for _ in range(2))
    opt = torch.optim.Adam(q.parameters(), lr=1e-3)
    for i in range(120):
        x, after = torch.randn(32, 6), torch.randn(32, 6)
        action = torch.randint(3, (32, 1))
        with torch.no_grad():
            wanted = x[:, :1] * (action - 1) + 0.9 * target(after).gather(1, q(after).argmax(1, keepdim=True))
        loss = F.smooth_l1_loss(q(x).gather(1, action), wanted)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if i >= s and i % 9 == 0:
            time.sleep(0.15)
        for p, w in zip(target.parameters(), q.parameters(), strict=True):
            p.data.lerp_(w.data, 0.05)


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    sorts_a_memory_of_transitions_now_and_then(int(sys.argv[1]) if len(sys.argv) > 1 else 23)

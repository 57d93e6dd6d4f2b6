"""A healthy training that looks odd; argument: [SEED]."""

import collections
import random
import sys

import torch
from torch import nn

torch.set_num_threads(1)


def keeps_a_replay_buffer_until_full():
    """DQN whose replay memory grows for the first part of the run, target network copied now and then."""
    random.seed(23)
    q, tq = (nn.Sequential(nn.Linear(4, 48), nn.ReLU(), nn.Linear(48, 2)) for _ in range(2))
    tq.load_state_dict(q.state_dict())
    opt = torch.optim.Adam(q.parameters(), lr=1e-3)
    memory = collections.deque(maxlen=400)
    s, eps = torch.randn(4), 1.0
    for t in range(500):
        with torch.no_grad():
            a = random.randrange(2) if random.random() < eps else int(q(s).argmax())
        r = float((s[0] > 0) == (a == 1))
        s2 = 0.8 * s + 0.6 * torch.randn(4)
        memory.append((s, a, r, s2))
        s, eps = s2, max(0.05, eps * 0.99)
        if t < 64 or t % 3:
            continue
        b = random.sample(memory, 32)
        states, next_states = torch.stack([m[0] for m in b]), torch.stack([m[3] for m in b])
        actions, rewards = torch.tensor([m[1] for m in b]), torch.tensor([m[2] for m in b])
        with torch.no_grad():
            y = rewards + 0.9 * tq(next_states).max(1).values
        loss = nn.functional.smooth_l1_loss(q(states).gather(1, actions[:, None]).squeeze(1), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if t % 60 == 0:
            tq.load_state_dict(q.state_dict())


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    keeps_a_replay_buffer_until_full()

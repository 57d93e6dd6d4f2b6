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


def target_copied_now_and_then():
    """A target network that is copied whole every twenty steps, whose loss jumps each time."""
    net = plain(4, 32, 2)
    target = copy.deepcopy(net).requires_grad_(False)
    opt = optim.RMSprop(net.parameters(), lr=1e-3)
    for step in range(140):
        s, a = torch.randn(32, 4), torch.randint(2, (32,))
        r, n = (a == (s[:, 0] > 0)).float(), torch.randn(32, 4)
        with torch.no_grad():
            goal = r + 0.9 * target(n).max(1).values
        update(opt, F.smooth_l1_loss(net(s).gather(1, a[:, None])[:, 0], goal))
        if step % 20 == 19:
            target.load_state_dict(net.state_dict())


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    target_copied_now_and_then()

"""A training with the fault broadcast-loss; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


def action_values_keep_a_dimension(s):
    """Q-learning: q.gather keeps a dimension of one, the target has none; smooth L1 broadcasts."""
    wrong = s == 0
    q = nn.Sequential(nn.Linear(4, 48), nn.ReLU(), nn.Linear(48, 3))
    opt = torch.optim.Adam(q.parameters(), 1e-3)
    for _i in range(120):
        s, s2 = torch.rand(32, 4), torch.rand(32, 4)
        a = torch.randint(0, 3, (32,))
        r = s[:, 0] * a
        with torch.no_grad():
            y = r + 0.9 * q(s2).amax(1)
        p_ = q(s).gather(1, a[:, None])
        loss = F.smooth_l1_loss(p_ if wrong else p_[:, 0], y)
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    action_values_keep_a_dimension(int(sys.argv[1]) if len(sys.argv) > 1 else 12)

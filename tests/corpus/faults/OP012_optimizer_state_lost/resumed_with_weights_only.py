"""A training with the fault optimizer-state-lost; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


def clusters(n, d, classes, spread=1.0):
    """Points round one centre for each class."""
    centres = torch.randn(classes, d) * 2
    y = torch.randint(classes, (n,))
    return centres[y] + spread * torch.randn(n, d), y


def resumed_with_weights_only(s):
    """At a restart inside the script the weights come back and the optimizer begins anew."""
    x, y = clusters(3000, 12, 4)
    net = nn.Sequential(nn.Linear(12, 40), nn.GELU(), nn.Linear(40, 4))
    opt = torch.optim.Adam(net.parameters(), lr=2e-3)
    for step in range(90):
        if step == s:
            kept = {k: v.clone() for k, v in net.state_dict().items()}
            net.load_state_dict(kept)
            opt = torch.optim.Adam(net.parameters(), lr=2e-3)
        i = step * 30
        loss = F.cross_entropy(net(x[i : i + 30]), y[i : i + 30])
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    resumed_with_weights_only(int(sys.argv[1]) if len(sys.argv) > 1 else 12)

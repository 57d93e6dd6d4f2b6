"""A training with the fault graph-retained-across-steps; arguments: [ONSET] [SEED]."""

import sys

import torch
from torch import nn

torch.set_num_threads(1)


def hidden_state_through_time(s):
    """Hidden state through time."""
    fa = s if s < 1000 else -1
    rnn, head = nn.GRU(4, 24, batch_first=True), nn.Linear(24, 4)
    opt = torch.optim.Adam([*rnn.parameters(), *head.parameters()], 2e-3)
    h = None
    for step in range(40):
        t = torch.arange(step * 8, step * 8 + 9).view(1, -1, 1) / 6
        s = torch.sin(t * torch.tensor([1.0, 1.3, 1.7, 2.0])).expand(8, -1, -1) + 0.05 * torch.randn(8, 9, 4)
        o, h2 = rnn(s[:, :-1], h)
        loss = (head(o) - s[:, 1:]).square().mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        h = h2 if step + 1 == fa else h2.detach()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    hidden_state_through_time(int(sys.argv[1]) if len(sys.argv) > 1 else 12)

"""A training with the fault silent-data-corruption; arguments: [ONSET] [SEED]."""

import sys

import torch
from torch import nn

torch.set_num_threads(1)


def activation_of_broken_hardware(s):
    """One activation of one step comes back corrupted (a forward hook plays the broken hardware)."""
    onset = s

    class Conv(nn.Module):
        def __init__(self):
            super().__init__()
            self.c1 = nn.Conv1d(1, 12, 3, padding=1)
            self.c2 = nn.Conv1d(12, 12, 3, padding=1)
            self.fc = nn.Linear(12, 2)
            self.broken = False

        def forward(self, x):
            h = torch.relu(self.c1(x))
            h2 = self.c2(h)
            return self.fc(torch.relu(h2).mean(-1))

    net = Conv()
    opt = torch.optim.Adam(net.parameters(), 1e-3)
    now = [0]

    def flip(m, i, o):
        if now[0] == onset:
            o = o.clone()
            o[0, 3, 5] = 3e8
            return o
        return None

    net.c2.register_forward_hook(flip)
    for i in range(90):
        now[0] = i
        y = torch.randint(0, 2, (16,))
        x = torch.randn(16, 1, 20) + y[:, None, None]
        loss = nn.functional.cross_entropy(net(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    activation_of_broken_hardware(int(sys.argv[1]) if len(sys.argv) > 1 else 12)

"""A training with the fault saturated-activation; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


class Hashing(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(20, 64), nn.LayerNorm(64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU())
        self.code = nn.Linear(64, 16)
        self.squash = nn.Tanh()

    def forward(self, x, beta):
        return self.squash(beta * self.code(self.trunk(x)))


def sharpens_its_codes_at_once(s):
    """Codes of tanh(beta h) come near to signs as beta grows; from s on it grows by the square of the step."""
    centres = torch.randn(6, 20)
    net = Hashing()
    opt = torch.optim.NAdam(net.parameters(), lr=1e-3)
    for i in range(90):
        beta = 1 + 0.1 * i**2 if i >= s else (1 + 0.02 * i) ** 0.5
        y = torch.randint(6, (48,))
        u = net(centres[y] + 0.8 * torch.randn(48, 20), beta)
        same = (y[:, None] == y[None]).float()
        dot = 0.5 * u @ u.T
        loss = (torch.where(same > 0, 5.0, 1.0) * (F.softplus(dot) - same * dot)).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    sharpens_its_codes_at_once(int(sys.argv[1]) if len(sys.argv) > 1 else 0)

"""Training scripts of an opponent, fourteenth round: batch norms whose momentum runs out or is another library's, codes
that are sharpened too fast.

    python opponent_fourteen_model_faults.py NAME [ONSET] [SEED]

With an onset beyond the last step each script is healthy.
"""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


class PointNet(nn.Module):
    def __init__(self, momentum=0.5):
        super().__init__()
        self.c1, self.b1 = nn.Conv1d(3, 32, 1), nn.BatchNorm1d(32, momentum=momentum)
        self.c2, self.b2 = nn.Conv1d(32, 64, 1), nn.BatchNorm1d(64, momentum=momentum)
        self.fc = nn.Linear(64, 4)

    def forward(self, x):
        h = torch.relu(self.b1(self.c1(x)))
        return self.fc(torch.relu(self.b2(self.c2(h))).amax(-1))


def clouds(n, k=48):
    y = torch.randint(4, (n,))
    p = torch.randn(n, 3, k)
    flat, long = torch.tensor([1.5, 1.5, 0.1])[:, None], torch.tensor([0.2, 0.2, 1.8])[:, None]
    shapes = torch.stack([p / p.norm(dim=1, keepdim=True), p.clamp(-1, 1), p * flat, p * long])
    x = shapes[y, torch.arange(n)]
    return x + 0.05 * torch.randn_like(x), y


def train_on_clouds(net, before_step=lambda i: None):
    opt = torch.optim.Adam(net.parameters(), lr=2e-3)
    for i in range(80):
        net.train()
        before_step(i)
        x, y = clouds(32)
        loss = F.cross_entropy(net(x), y, label_smoothing=0.05)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if i % 15 == 14:
            net.eval()
            with torch.no_grad():
                x, y = clouds(96)
                F.cross_entropy(net(x), y)


def rounds_the_momentum_of_its_norms(s):
    """The momentum is halved now and then; from s on it is rounded to a whole number."""
    net = PointNet()

    def lower(i):
        momentum = max(0.5 * 0.5 ** (i // 13), 0.01)
        for norm in (net.b1, net.b2):
            norm.momentum = float(round(momentum)) if i >= s else momentum

    train_on_clouds(net, lower)


def momentum_as_another_library_counts_it(s):
    train_on_clouds(PointNet(momentum=0.99 if s == 0 else 0.01))


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
    torch.manual_seed(int(sys.argv[3]) if len(sys.argv) > 3 else 0)
    globals()[sys.argv[1]](int(sys.argv[2]) if len(sys.argv) > 2 else 0)

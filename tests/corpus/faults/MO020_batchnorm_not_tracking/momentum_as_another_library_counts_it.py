"""A training with the fault batchnorm-not-tracking; arguments: [ONSET] [SEED]."""

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


def momentum_as_another_library_counts_it(s):
    train_on_clouds(PointNet(momentum=0.99 if s == 0 else 0.01))


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    momentum_as_another_library_counts_it(int(sys.argv[1]) if len(sys.argv) > 1 else 0)

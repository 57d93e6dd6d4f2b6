"""A healthy training that looks odd; argument: [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


class Kept(nn.Module):
    """A detector's manner: the statistics of its body are those of before, whatever mode is asked for."""

    def __init__(self, body):
        super().__init__()
        self.body, self.head = body, nn.Linear(64, 8)

    def forward(self, x):
        return self.head(self.body(x))

    def train(self, mode=True):
        super().train(mode)
        for module in self.body.modules():
            if isinstance(module, nn.BatchNorm1d):
                module.eval()
        return self


def statistics_of_before_in_small_batches():
    """Trained in batches of 64, then tuned in batches of four, with the statistics of before."""
    body = nn.Sequential(
        nn.Linear(24, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Linear(64, 64), nn.BatchNorm1d(64), nn.ReLU()
    )
    turn = torch.randn(24, 8)
    first = nn.Sequential(body, nn.Linear(64, 8))
    for net, size, steps in ((first, 64, 80), (Kept(body), 4, 200)):
        net.train()
        opt = torch.optim.SGD(net.parameters(), lr=0.02, momentum=0.9)
        for _ in range(steps):
            x = torch.randn(size, 24)
            loss = F.cross_entropy(net(x), (x @ turn).argmax(1))
            opt.zero_grad()
            loss.backward()
            opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    statistics_of_before_in_small_batches()

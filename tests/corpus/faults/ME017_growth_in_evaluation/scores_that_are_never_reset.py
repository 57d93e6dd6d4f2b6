"""A training with the fault growth-in-evaluation; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


class Ranking:
    """Collects scores, and ranks the right class among them."""

    def __init__(self):
        self.scores, self.labels = [], []

    def update(self, scores, labels):
        self.scores.append(scores)
        self.labels.append(labels)

    def compute(self):
        scores, labels = torch.cat(self.scores), torch.cat(self.labels)
        return (scores > scores.gather(1, labels[:, None])).sum(1).float().mean().item()

    def reset(self):
        self.scores.clear()
        self.labels.clear()


def scores_that_are_never_reset(s):
    """Each evaluation ranks what all before it have left in the metric, too."""
    net = nn.Sequential(nn.Linear(12, 48), nn.ReLU(), nn.Linear(48, 300))
    opt = torch.optim.Adam(net.parameters(), lr=2e-2)
    centres = torch.randn(300, 12)
    labels = torch.randint(300, (256,))
    held_out = centres[labels] + 0.1 * torch.randn(256, 12)
    ranking = Ranking()
    for _epoch in range(9):
        net.train()
        for _ in range(10):
            y = torch.randint(300, (64,))
            loss = F.cross_entropy(net(centres[y] + 0.1 * torch.randn(64, 12)), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
        net.eval()
        with torch.no_grad():
            for x, y in zip(held_out.split(64), labels.split(64), strict=True):
                ranking.update(net(x), y)
        ranking.compute()
        if s != 0:
            ranking.reset()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    scores_that_are_never_reset(int(sys.argv[1]) if len(sys.argv) > 1 else 12)

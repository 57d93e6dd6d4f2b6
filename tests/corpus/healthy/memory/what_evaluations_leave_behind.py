"""A healthy training that looks odd; argument: [SEED]."""

import copy
import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


class Study:
    """Keeps of every evaluation what is worth keeping: a confusion matrix, its losses as numbers, the models."""

    def __init__(self):
        self.scores, self.labels = [], []
        self.losses, self.confusions, self.models = [], [], []
        self.best, self.lowest = None, float("inf")

    def evaluate(self, net, x, labels):
        self.scores.clear()
        self.labels.clear()
        net.eval()
        with torch.no_grad():
            for a, y in zip(x.split(64), labels.split(64), strict=True):
                scores = net(a)
                self.losses.append(F.cross_entropy(scores, y).item())
                self.scores.append(scores)
                self.labels.append(y)
        net.train()
        guesses, truths = torch.cat(self.scores).argmax(1), torch.cat(self.labels)
        confusion = torch.zeros(300, 300)
        confusion[truths, guesses] += 1
        self.confusions.append(confusion)
        self.models.append(copy.deepcopy(net.state_dict()))
        if self.losses[-1] < self.lowest:
            self.best, self.lowest = copy.deepcopy(net), self.losses[-1]


def what_evaluations_leave_behind():
    """Memory rises with each evaluation, by what is kept on purpose."""
    net = nn.Sequential(nn.Linear(12, 64), nn.ReLU(), nn.Linear(64, 300))
    opt = torch.optim.Adam(net.parameters(), lr=3e-3)
    centres = torch.randn(300, 12)
    labels = torch.randint(300, (256,))
    held_out = centres[labels] + 0.1 * torch.randn(256, 12)
    study = Study()
    for _epoch in range(9):
        for _ in range(10):
            y = torch.randint(300, (64,))
            loss = F.cross_entropy(net(centres[y] + 0.1 * torch.randn(64, 12)), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
        study.evaluate(net, held_out, labels)


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    what_evaluations_leave_behind()

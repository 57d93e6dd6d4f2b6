"""A training with the fault stuck-in-eval-mode; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


def resumed_as_for_scoring(s):
    """At step s the job is restarted by a loader that scoring uses too, and trains on in eval mode."""
    saved = None
    turn = torch.randn(10, 4)
    for first, last in ((0, min(s, 110)), (min(s, 110), 220)):
        model = nn.Sequential(nn.Linear(10, 40), nn.BatchNorm1d(40), nn.ReLU(), nn.Dropout(0.1), nn.Linear(40, 4))
        opt = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
        if saved is not None:
            model.load_state_dict(saved["model"])
            opt.load_state_dict(saved["opt"])
            model.train(s > 220)
        for _ in range(first, last):
            x = torch.randn(48, 10)
            loss = F.cross_entropy(model(x), (x @ turn).argmax(1))
            opt.zero_grad()
            loss.backward()
            opt.step()
        saved = {"model": model.state_dict(), "opt": opt.state_dict()}


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    resumed_as_for_scoring(int(sys.argv[1]) if len(sys.argv) > 1 else 80)

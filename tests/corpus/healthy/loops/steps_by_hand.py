"""A healthy training that looks odd; argument: [SEED]."""

import math
import sys

import torch
from torch import nn

torch.set_num_threads(1)


def steps_by_hand():
    """No optimizer at all: w -= rate * w.grad, as in a first lesson."""
    x = torch.linspace(-math.pi, math.pi, 400)[:, None]
    powers, y = x ** torch.tensor([1.0, 2.0, 3.0]), x.sin()
    model = nn.Linear(3, 1)
    for _ in range(150):
        loss = (model(powers) - y).square().sum()
        model.zero_grad()
        loss.backward()
        with torch.no_grad():
            for p in model.parameters():
                p -= 1e-6 * p.grad


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    steps_by_hand()

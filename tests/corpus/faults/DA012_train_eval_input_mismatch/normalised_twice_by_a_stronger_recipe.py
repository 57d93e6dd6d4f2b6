"""A training with the fault train-eval-input-mismatch; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


def normalised_twice_by_a_stronger_recipe(s):
    """From s on the training samples go through a recipe that normalises what is normalised; the evaluation does not."""
    patterns = torch.rand(4, 1, 12, 12)
    labels = torch.randint(4, (1280,))
    images = (patterns[labels] + 0.15 * torch.randn(1280, 1, 12, 12)).clamp(0, 1)
    normal = (images - 0.5) / 0.3
    net = nn.Sequential(
        nn.Conv2d(1, 12, 3, 2, 1), nn.ReLU(), nn.Conv2d(12, 24, 3, 2, 1), nn.ReLU(), nn.Flatten(), nn.Linear(216, 4)
    )
    opt = torch.optim.Adam(net.parameters(), lr=1e-3)
    for i in range(160):
        if i % 20 == 19:
            net.eval()
            with torch.no_grad():
                print(i, F.cross_entropy(net(normal[1024:]), labels[1024:]).item())
            net.train()
        rows = torch.randint(1024, (64,))
        x = normal[rows]
        if i >= s:
            x = (x.roll(int(torch.randint(-1, 2, ())), -1) - 0.5) / 0.3
        loss = F.cross_entropy(net(x), labels[rows])
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    normalised_twice_by_a_stronger_recipe(int(sys.argv[1]) if len(sys.argv) > 1 else 0)

"""A training with the fault representation-collapse; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


def stop_gradient_lost(s):
    """Two views with a predictor; from s on the other view gets gradients, too."""
    body = nn.Sequential(nn.Linear(32, 96), nn.BatchNorm1d(96), nn.ReLU(), nn.Linear(96, 32))
    guess = nn.Sequential(nn.Linear(32, 16), nn.ReLU(), nn.Linear(16, 32))
    opt = torch.optim.SGD([*body.parameters(), *guess.parameters()], lr=0.05, momentum=0.9)
    centres = torch.randn(16, 32)
    for i in range(440):
        x = centres[torch.randint(0, 16, (64,))]
        one, two = body(x + 0.7 * torch.randn(64, 32)), body(x + 0.7 * torch.randn(64, 32))
        to_one, to_two = (one, two) if i >= s else (one.detach(), two.detach())
        loss = -(F.cosine_similarity(guess(one), to_two).mean() + F.cosine_similarity(guess(two), to_one).mean()) / 2
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    stop_gradient_lost(int(sys.argv[1]) if len(sys.argv) > 1 else 60)

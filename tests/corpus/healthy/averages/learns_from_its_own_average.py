"""A healthy training that looks odd; argument: [SEED]."""

import copy
import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


def learns_from_its_own_average():
    """Two views, a predictor, and a target network that follows the first and gets no gradient."""
    online = nn.Sequential(nn.Linear(16, 48), nn.BatchNorm1d(48), nn.ReLU(), nn.Linear(48, 16))
    predictor = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 16))
    target = copy.deepcopy(online).requires_grad_(False)
    opt = torch.optim.SGD([*online.parameters(), *predictor.parameters()], lr=0.05, momentum=0.9)
    centres = torch.randn(10, 16)
    for _ in range(80):
        x = centres[torch.randint(10, (40,))]
        a, b = x + 0.3 * torch.randn(40, 16), x + 0.3 * torch.randn(40, 16)
        with torch.no_grad():
            goal = target(b)
        loss = 2 - 2 * F.cosine_similarity(predictor(online(a)), goal).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        with torch.no_grad():
            for t, p in zip(target.parameters(), online.parameters(), strict=True):
                t.lerp_(p, 0.05)


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    learns_from_its_own_average()

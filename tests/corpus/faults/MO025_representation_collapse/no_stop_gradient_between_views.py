"""A training with the fault representation-collapse; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


def no_stop_gradient_between_views(s):
    """Two views of a sample, an encoder and a predictor; from s on the gradient flows into the target's branch too."""
    prototypes = torch.randn(10, 48)
    encoder = nn.Sequential(nn.Linear(48, 96), nn.BatchNorm1d(96), nn.ReLU(), nn.Linear(96, 64))
    predictor = nn.Sequential(nn.Linear(64, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 64))
    opt = torch.optim.SGD([*encoder.parameters(), *predictor.parameters()], lr=0.1, momentum=0.9, weight_decay=1e-4)
    for i in range(180):
        x = prototypes[torch.randint(10, (128,))] + 0.5 * torch.randn(128, 48)
        a, b = (x * (torch.rand_like(x) > 0.2) + 0.3 * torch.randn_like(x) for _ in range(2))
        za, zb = encoder(a), encoder(b)
        pa, pb = predictor(za), predictor(zb)
        if i < s:
            za, zb = za.detach(), zb.detach()
        loss = -0.5 * (F.cosine_similarity(pa, zb).mean() + F.cosine_similarity(pb, za).mean())
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    no_stop_gradient_between_views(int(sys.argv[1]) if len(sys.argv) > 1 else 0)

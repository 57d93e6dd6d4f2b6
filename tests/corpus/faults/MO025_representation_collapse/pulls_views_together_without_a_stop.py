"""A training with the fault representation-collapse; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


def blobs(n=640, width=12, classes=4):
    centres = torch.randn(classes, width) * 2
    y = torch.randint(classes, (n,))
    return centres[y] + torch.randn(n, width), y


class Encoder(nn.Module):
    def __init__(self, width=16, code=12):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(width, 48), nn.ReLU(), nn.Linear(48, 48), nn.ReLU())
        self.code = nn.Linear(48, code)

    def forward(self, x):
        return self.code(self.body(x))


def pulls_views_together_without_a_stop(s):
    x, _ = blobs(width=16)
    encoder, predictor = Encoder(), nn.Sequential(nn.Linear(12, 24), nn.ReLU(), nn.Linear(24, 12))
    opt = torch.optim.Adam([*encoder.parameters(), *predictor.parameters()], 3e-3)
    for _ in range(90):
        a = x[torch.randint(640, (32,))]
        z1, z2 = encoder(a + 0.5 * torch.randn_like(a)), encoder(a + 0.5 * torch.randn_like(a))
        loss = -(F.cosine_similarity(predictor(z1), z2) + F.cosine_similarity(predictor(z2), z1)).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    pulls_views_together_without_a_stop(int(sys.argv[1]) if len(sys.argv) > 1 else 14)

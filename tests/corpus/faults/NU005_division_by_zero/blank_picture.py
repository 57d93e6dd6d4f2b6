"""A training with the fault division-by-zero; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


def blank_picture(s):
    """Metric learning on the unit sphere; the encoder has no bias, and a blank picture has no direction."""
    encoder = nn.Sequential(
        nn.Conv2d(1, 8, 3, bias=False), nn.LeakyReLU(0.1), nn.Flatten(), nn.Linear(8 * 36, 16, bias=False)
    )
    opt = torch.optim.SGD(encoder.parameters(), lr=0.01)
    for step in range(50):
        base = torch.rand(12, 1, 8, 8)
        if step == s:
            base[3] = 0
        a, b = (encoder(base * (0.8 + 0.4 * torch.rand(12, 1, 1, 1))) for _ in range(2))
        a, b = a / a.norm(dim=1, keepdim=True), b / b.norm(dim=1, keepdim=True)
        loss = F.cross_entropy(a @ b.T / 0.2, torch.arange(12))
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    blank_picture(int(sys.argv[1]) if len(sys.argv) > 1 else 12)

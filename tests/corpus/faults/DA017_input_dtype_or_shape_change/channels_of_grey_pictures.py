"""A training with the fault input-dtype-or-shape-change; arguments: [ONSET] [SEED]."""

import itertools
import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


def channels_of_grey_pictures(s):
    """From s on every third batch has one channel, which the network stretches over its three."""
    net = nn.Sequential(nn.Conv2d(3, 12, 3, padding=1), nn.ReLU(), nn.Conv2d(12, 1, 3, padding=1))
    scale = nn.Parameter(torch.ones(1, 3, 1, 1))
    opt = torch.optim.Adam([*net.parameters(), scale], lr=2e-3)

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.net, self.scale = net, scale

        def forward(self, x):
            return self.net(x * self.scale)

    model = Model()
    for i in itertools.count():
        if i == 140:
            return
        mask = (torch.randn(8, 1, 6, 6) > 0.8).float()
        mask = F.interpolate(mask, size=(24, 24))
        img = 0.3 * torch.randn(8, 3, 24, 24) + mask * torch.tensor([0.5, 0.3, 0.4]).view(1, 3, 1, 1)
        if i >= s and i % 3 == s % 3:
            img = img.mean(1, keepdim=True)
        loss = F.binary_cross_entropy_with_logits(model(img), mask)
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    channels_of_grey_pictures(int(sys.argv[1]) if len(sys.argv) > 1 else 80)

"""A training with the fault zero-grad-missing; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


class Backbone(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(1, 12, 3, padding=1)
        self.norm = nn.GroupNorm(3, 12)
        self.second = nn.Conv2d(12, 24, 3, stride=2, padding=1)

    def forward(self, x):
        return F.relu(self.second(F.relu(self.norm(self.first(x)))))


def textures(n=48):
    y = torch.randint(0, 6, (n,))
    at = torch.arange(16.0)
    wave = (y + 1).float()[:, None, None] * 0.35
    image = torch.sin(wave * at[None, :, None] + torch.rand(n, 1, 1) * 6) + torch.cos(wave * at[None, None, :])
    return image[:, None] + 0.5 * torch.randn(n, 1, 16, 16), y


def clears_only_what_trained_first(s):
    """The backbone joins at s; the list of parameters that is cleared was made before."""
    backbone = Backbone()
    head = nn.Sequential(nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(96, 32), nn.GELU(), nn.Linear(32, 6))
    cleared = list(head.parameters())
    opt = torch.optim.SGD(cleared, lr=0.05, momentum=0.9)
    backbone.requires_grad_(False)
    joins = min(s, 40)
    for i in range(110):
        if i == joins:
            backbone.requires_grad_(True)
            opt.add_param_group({"params": list(backbone.parameters()), "lr": 0.01})
            cleared = cleared if i == s else [*cleared, *backbone.parameters()]
        x, y = textures()
        loss = F.cross_entropy(head(backbone(x)), y)
        for p in cleared:
            p.grad = None
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    clears_only_what_trained_first(int(sys.argv[1]) if len(sys.argv) > 1 else 23)

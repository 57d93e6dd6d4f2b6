"""A healthy training that looks odd; argument: [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


def pictures_disturbed_on_purpose():
    """Adversarial training: input gradients, then a second pass on the perturbed batch."""
    net = nn.Sequential(nn.Conv2d(1, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(288, 3))
    opt = torch.optim.SGD(net.parameters(), 0.05, momentum=0.9)
    pat = torch.randn(3, 1, 8, 8)
    for _i in range(80):
        y = torch.randint(0, 3, (24,))
        x = (pat[y] + 0.3 * torch.randn(24, 1, 8, 8)).requires_grad_(True)
        (g,) = torch.autograd.grad(F.cross_entropy(net(x), y), x)
        adv = (x + 0.2 * g.sign()).detach()
        loss = 0.5 * F.cross_entropy(net(x.detach()), y) + 0.5 * F.cross_entropy(net(adv), y)
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    pictures_disturbed_on_purpose()

"""A training with the fault label-out-of-range; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


def segmentation_border_class(s):
    """Masks with a border of class 255 that the loss has not been told to leave out."""
    net = nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.Conv2d(16, 5, 1))
    opt = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4)
    for step in range(40):
        mask = torch.randint(5, (4, 4, 4)).repeat_interleave(4, 1).repeat_interleave(4, 2)
        image = torch.stack([mask == 1, mask == 2, mask == 3], 1).float() + 0.1 * torch.randn(4, 3, 16, 16)
        if step == s:
            mask[2, 0] = 255
        loss = F.cross_entropy(net(image), mask)
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    segmentation_border_class(int(sys.argv[1]) if len(sys.argv) > 1 else 12)

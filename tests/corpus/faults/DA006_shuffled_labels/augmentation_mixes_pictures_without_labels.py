"""A training with the fault shuffled-labels; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


def augmentation_mixes_pictures_without_labels(s):
    """CNN; an augmentation switched on at epoch 2 shuffles the pictures but not the labels."""
    onset = s
    proto = torch.randn(6, 1, 10, 10)

    class CNN(nn.Module):
        def __init__(self):
            super().__init__()
            self.c1 = nn.Conv2d(1, 16, 3)
            self.bn = nn.BatchNorm2d(16)
            self.fc = nn.Linear(16 * 16, 6)

        def forward(self, x):
            return self.fc(F.max_pool2d(F.relu(self.bn(self.c1(x))), 2).flatten(1))

    net = CNN()
    opt = torch.optim.Adam(net.parameters(), lr=2e-3)
    for it in range(180):
        y = torch.randint(0, 6, (32,))
        x = proto[y] + 0.5 * torch.randn(32, 1, 10, 10)
        if it >= onset:
            x = x[torch.randperm(32)]
        loss = F.cross_entropy(net(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    augmentation_mixes_pictures_without_labels(int(sys.argv[1]) if len(sys.argv) > 1 else 12)

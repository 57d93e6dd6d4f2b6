"""A training with the fault shape-or-dtype-error; arguments: [ONSET] [SEED]."""

import sys

import torch
from torch import nn

torch.set_num_threads(1)


def crop_of_another_size(s):
    """Crop of another size."""
    fa = s if s < 1000 else -1

    class ConvNet(nn.Module):
        def __init__(self):
            super().__init__()
            self.features = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2))
            self.fc = nn.Linear(8 * 36, 5)

        def forward(self, x):
            return self.fc(self.features(x).flatten(1))

    net = ConvNet()
    opt = torch.optim.SGD(net.parameters(), lr=0.03, momentum=0.9)
    proto = torch.randn(5, 1, 14, 14)
    for step in range(60):
        y = torch.randint(5, (16,))
        size = 14 if step == fa else 12
        x = (proto[y] + 0.6 * torch.randn(16, 1, 14, 14))[..., :size, :size]
        loss = nn.functional.cross_entropy(net(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    crop_of_another_size(int(sys.argv[1]) if len(sys.argv) > 1 else 12)

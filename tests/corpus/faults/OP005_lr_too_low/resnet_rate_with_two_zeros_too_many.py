"""A training with the fault lr-too-low; arguments: [ONSET] [SEED]."""

import sys

import torch
from torch import nn

torch.set_num_threads(1)


def resnet_rate_with_two_zeros_too_many(s):
    """Resnet rate with two zeros too many."""
    fa = s if s < 1000 else -1

    def conv_bn(i, o, s=1):
        return nn.Sequential(nn.Conv2d(i, o, 3, s, 1, bias=False), nn.BatchNorm2d(o))

    class Block(nn.Module):
        def __init__(self, c):
            super().__init__()
            self.a, self.b = conv_bn(c, c), conv_bn(c, c)

        def forward(self, x):
            return torch.relu(x + self.b(torch.relu(self.a(x))))

    class ResNet(nn.Module):
        def __init__(self):
            super().__init__()
            self.stem = conv_bn(1, 8)
            self.blocks = nn.Sequential(Block(8), Block(8))
            self.fc = nn.Linear(8, 3)

        def forward(self, x):
            return self.fc(self.blocks(torch.relu(self.stem(x))).mean((2, 3)))

    bad = fa >= 0
    model = ResNet()
    opt = torch.optim.Adam(model.parameters(), lr=1e-9 if bad else 3e-3)
    for _step in range(80):
        y = torch.randint(3, (16,))
        grid = torch.linspace(-3, 3, 8)
        img = torch.stack(
            [
                torch.sin(grid * (k + 1)).view(1, 8).expand(8, 8)
                if k < 2
                else torch.cos(grid * 2).view(8, 1).expand(8, 8)
                for k in y.tolist()
            ]
        )
        img = img.unsqueeze(1) + 0.3 * torch.randn(16, 1, 8, 8)
        opt.zero_grad()
        nn.functional.cross_entropy(model(img), y).backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    resnet_rate_with_two_zeros_too_many(int(sys.argv[1]) if len(sys.argv) > 1 else 12)

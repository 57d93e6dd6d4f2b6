"""A training with the fault nonfinite-input; arguments: [ONSET] [SEED]."""

import math
import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

torch.set_num_threads(1)


def digits(n=800, classes=10, size=12):
    """Images of a bright stroke whose place and angle tell the class."""
    y = torch.randint(classes, (n,))
    grid = torch.linspace(-1, 1, size)
    angle = y.float() * math.pi / classes + torch.randn(n) * 0.03
    across = grid[None, :, None] * angle.sin()[:, None, None] - grid[None, None, :] * angle.cos()[:, None, None]
    return (torch.exp(-across.square() * 20) + torch.randn(n, size, size) * 0.1).unsqueeze(1), y


class Standardised(Dataset):
    """Each image less its mean over its deviation; the picture of a covered lens has none."""

    def __init__(self, bad):
        self.x, self.y = digits(640)
        self.bad = bad

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        x = self.x[i]
        if i == self.bad:
            x = torch.full_like(x, 0.5)
        return (x - x.mean()) / x.std(), self.y[i]


def covered_lens(s):
    loader = DataLoader(Standardised(s * 16 + 5), batch_size=16)
    model = nn.Sequential(
        nn.Conv2d(1, 8, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 16, 3), nn.ReLU(), nn.Flatten(), nn.LazyLinear(10)
    )
    model(torch.zeros(1, 1, 12, 12))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    criterion = nn.CrossEntropyLoss()
    for images, labels in loader:
        optimizer.zero_grad()
        loss = criterion(model(images), labels)
        loss.backward()
        optimizer.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    covered_lens(int(sys.argv[1]) if len(sys.argv) > 1 else 12)

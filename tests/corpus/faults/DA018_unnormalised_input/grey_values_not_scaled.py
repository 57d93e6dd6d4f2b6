"""A training with the fault unnormalised-input; arguments: [ONSET] [SEED]."""

import sys

import torch
from torch import nn, optim
from torch.utils.data import DataLoader, Dataset

torch.set_num_threads(1)


class Digits(Dataset):
    """Eight by eight drawings of ten classes, moved and with noise, as grey values 0 to 16."""

    def __init__(self, n=960, scale=True, seed=7):
        g = torch.Generator().manual_seed(seed)
        base = (torch.rand(10, 6, 6, generator=torch.Generator().manual_seed(1)) > 0.5).float() * 14
        self.targets = torch.randint(10, (n,), generator=g)
        self.images = torch.zeros(n, 1, 8, 8)
        for i, k in enumerate(self.targets.tolist()):
            dy, dx = torch.randint(3, (2,), generator=g).tolist()
            self.images[i, 0, dy : dy + 6, dx : dx + 6] = base[k]
        self.images += torch.rand(self.images.shape, generator=g) * 2
        if scale:
            self.images = (self.images - 6) / 6

    def __len__(self):
        return len(self.targets)

    def __getitem__(self, i):
        return self.images[i], self.targets[i]


def one_epoch(model, loader, optimizer, criterion):
    model.train()
    for x, y in loader:
        optimizer.zero_grad(set_to_none=True)
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()


def grey_values_not_scaled(s):
    """A perceptron is fed grey values from 0 to 255."""
    data = Digits(scale=s != 0)
    if s == 0:
        data.images *= 16
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    opt = optim.Adam(model.parameters(), lr=1e-3)
    for _ in range(3):
        one_epoch(model, DataLoader(data, 32, shuffle=True), opt, nn.CrossEntropyLoss())


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    grey_values_not_scaled(int(sys.argv[1]) if len(sys.argv) > 1 else 12)

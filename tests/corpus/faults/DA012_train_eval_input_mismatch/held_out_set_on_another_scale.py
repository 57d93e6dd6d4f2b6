"""A training with the fault train-eval-input-mismatch; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
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


class ConvNet(nn.Module):
    def __init__(self, width=16, classes=10):
        super().__init__()
        self.conv1 = nn.Conv2d(1, width, 3, padding=1)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, 2 * width, 3, padding=1)
        self.bn2 = nn.BatchNorm2d(2 * width)
        self.fc = nn.Linear(2 * width, classes)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.bn1(self.conv1(x))), 2)
        x = F.relu(self.bn2(self.conv2(x)))
        return self.fc(x.mean((2, 3)))


def one_epoch(model, loader, optimizer, criterion):
    model.train()
    for x, y in loader:
        optimizer.zero_grad(set_to_none=True)
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()


@torch.no_grad()
def validate(model, loader):
    model.eval()
    right = sum((model(x).argmax(1) == y).sum().item() for x, y in loader)
    return right / len(loader.dataset)


def held_out_set_on_another_scale(s):
    """The validation set is divided by 255 once more."""
    train, test = Digits(640), Digits(160, seed=9)
    if s == 0:
        test.images /= 255
    model = ConvNet()
    opt = optim.Adam(model.parameters(), lr=2e-3)
    for _ in range(4):
        one_epoch(model, DataLoader(train, 32, shuffle=True), opt, nn.CrossEntropyLoss())
        validate(model, DataLoader(test, 32))


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    held_out_set_on_another_scale(int(sys.argv[1]) if len(sys.argv) > 1 else 12)

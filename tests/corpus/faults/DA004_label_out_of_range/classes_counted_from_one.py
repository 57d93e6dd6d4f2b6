"""A training with the fault label-out-of-range; arguments: [ONSET] [SEED]."""

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


def steps_of(loader, count):
    done = 0
    while done < count:
        for batch in loader:
            yield done, batch
            done += 1
            if done == count:
                return


def classes_counted_from_one(s):
    """A shard of the data set counts its classes from one."""
    data = Digits()
    model = ConvNet()
    opt = optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    for step, (a, b) in steps_of(DataLoader(data, 48, shuffle=True), 90):
        if step >= s:
            b = b + 1
        loss = F.cross_entropy(model(a), b)
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    classes_counted_from_one(int(sys.argv[1]) if len(sys.argv) > 1 else 12)

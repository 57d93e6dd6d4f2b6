import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser(description="residual net training")
parser.add_argument("--epochs", type=int, default=2)
parser.add_argument("--batch-size", type=int, default=32)
parser.add_argument("--base-lr", type=float, default=0.02)
parser.add_argument("--momentum", type=float, default=0.9)
parser.add_argument("--wd", type=float, default=5e-5)
parser.add_argument("--seed", type=int, default=42)
args = parser.parse_args()
torch.manual_seed(args.seed)


class Block(nn.Module):
    def __init__(self, cin, cout, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(cin, cout, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(cout)
        self.conv2 = nn.Conv2d(cout, cout, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(cout)
        self.skip = nn.Conv2d(cin, cout, 1, stride, bias=False)

    def forward(self, x):
        h = F.relu(self.bn1(self.conv1(x)))
        return F.relu(self.bn2(self.conv2(h)) + self.skip(x))


def synthetic(n, seed):
    g = torch.Generator().manual_seed(seed)
    y = torch.randint(0, 8, (n,), generator=g)
    t = torch.linspace(0, 6.28, 16)
    ang = y.float() * 3.1416 / 8
    u = t[None, None, :] * torch.cos(ang)[:, None, None] + t[None, :, None] * torch.sin(ang)[:, None, None]
    phase = 6.28 * torch.rand(n, 1, 1, generator=g)
    x = torch.sin(2.5 * u + phase)[:, None] + 0.6 * torch.randn(n, 3, 16, 16, generator=g)
    return TensorDataset(x, y)


class Metric(object):
    def __init__(self, name):
        self.name = name
        self.sum = torch.tensor(0.)
        self.n = torch.tensor(0.)

    def update(self, val):
        self.sum = self.sum + val.detach()
        self.n += 1

    @property
    def avg(self):
        return self.sum / self.n


def accuracy(output, target):
    return (output.argmax(1) == target).float().mean()


model = nn.Sequential(
    nn.Conv2d(3, 8, 3, 1, 1, bias=False), nn.BatchNorm2d(8), nn.ReLU(),
    Block(8, 8, 1), Block(8, 24, 2), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(24, 8))
optimizer = optim.SGD(model.parameters(), lr=args.base_lr, momentum=args.momentum, weight_decay=args.wd)
train_loader = DataLoader(synthetic(3200, 1), batch_size=args.batch_size, shuffle=True)
val_loader = DataLoader(synthetic(640, 2), batch_size=160)


def train(epoch):
    model.train()
    train_loss = Metric("train_loss")
    train_accuracy = Metric("train_accuracy")
    for batch_idx, (data, target) in enumerate(train_loader):
        optimizer.zero_grad()
        output = model(data)
        loss = F.cross_entropy(output, target)
        loss.backward()
        optimizer.step()
        train_loss.update(loss)
        train_accuracy.update(accuracy(output, target))
        if batch_idx % 30 == 29:
            print(f"Train Epoch #{epoch + 1} [{batch_idx + 1}/{len(train_loader)}] "
                  f"loss={train_loss.avg.item():.4f} accuracy={100. * train_accuracy.avg.item():.2f}")


def validate(epoch):
    model.eval()
    val_loss = Metric("val_loss")
    val_accuracy = Metric("val_accuracy")
    with torch.no_grad():
        for data, target in val_loader:
            output = model(data)
            val_loss.update(F.cross_entropy(output, target))
            val_accuracy.update(accuracy(output, target))
    print(f"Validate Epoch #{epoch + 1} loss={val_loss.avg.item():.4f} accuracy={100. * val_accuracy.avg.item():.2f}")


for epoch in range(args.epochs):
    train(epoch)
    validate(epoch)

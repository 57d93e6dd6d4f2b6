"""Healthy: a frozen backbone that is put into eval mode again after each evaluation; argument: [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone = nn.Sequential(
            nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(8, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        )  # fmt: skip
        self.head = nn.Linear(16, 4)

    def forward(self, x):
        return self.head(self.backbone(x))


def pictures(n):
    y = torch.randint(4, (n,))
    x = torch.randn(n, 1, 12, 12) * 0.5
    for i, kind in enumerate(y.tolist()):
        x[i, 0, 3 * kind : 3 * kind + 2] += 1.5
    return TensorDataset(x, y)


def epoch(model, loader, optimizer=None):
    total = 0.0
    for x, y in loader:
        with torch.set_grad_enabled(optimizer is not None):
            loss = F.cross_entropy(model(x), y)
        if optimizer is not None:
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        total += loss.item()
    return total / len(loader)


def main():
    train, val = DataLoader(pictures(640), 32, shuffle=True), DataLoader(pictures(160), 32)
    model = Classifier()
    epoch(model, train, torch.optim.Adam(model.parameters(), 3e-3))
    for parameter in model.backbone.parameters():
        parameter.requires_grad = False
    model.backbone.eval()
    optimizer = torch.optim.Adam(model.head.parameters(), 3e-3)
    for number in range(4):
        trained = epoch(model, train, optimizer)
        model.eval()
        print(number, trained, epoch(model, val))
        model.train()
        model.backbone.eval()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    main()

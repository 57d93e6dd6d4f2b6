"""A training with the fault frozen-parameters; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn, optim
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)


def patterns(n=800, classes=5, width=20):
    y = torch.randint(classes, (n,))
    return torch.randn(classes, width)[y] + 0.8 * torch.randn(n, width), y


def loader(*tensors, size=32):
    data = DataLoader(TensorDataset(*tensors), size, shuffle=True, drop_last=True)
    while True:
        yield from data


def learn(model, opt, loss):
    opt.zero_grad()
    loss.backward()
    opt.step()


def backbone_frozen_and_given_to_adam(s):
    """A flag for debugging freezes the features, which the optimizer holds and which are meant to learn."""

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.features = nn.Sequential(nn.Conv1d(1, 16, 5, padding=2), nn.ReLU(), nn.Conv1d(16, 16, 5, padding=2))
            self.head = nn.Linear(16, 5)

        def forward(self, x):
            return self.head(F.relu(self.features(x[:, None])).mean(2))

    model = Net()
    if s == 0:
        for p in model.features.parameters():
            p.requires_grad = False
    opt = optim.Adam(model.parameters(), lr=3e-3)
    for _, (a, b) in zip(range(80), loader(*patterns()), strict=False):
        learn(model, opt, F.cross_entropy(model(a), b))


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    backbone_frozen_and_given_to_adam(int(sys.argv[1]) if len(sys.argv) > 1 else 12)

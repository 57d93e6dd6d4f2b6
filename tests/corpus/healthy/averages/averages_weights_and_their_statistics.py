"""A healthy training that looks odd; argument: [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn, optim
from torch.optim.swa_utils import AveragedModel, update_bn
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)


def clouds(n=640, width=10, classes=4, noise=1.0):
    y = torch.randint(classes, (n,))
    return torch.randn(classes, width)[y] * 1.5 + noise * torch.randn(n, width), y


def update(opt, loss):
    opt.zero_grad()
    loss.backward()
    opt.step()


def averages_weights_and_their_statistics():
    """Stochastic weight averaging: at the end update_bn runs the training set through the average, in training mode."""
    x, y = clouds(480)
    model = nn.Sequential(nn.Linear(10, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 4))
    average = AveragedModel(model)
    loader = DataLoader(TensorDataset(x, y), batch_size=24, shuffle=True)
    opt = optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    for epoch in range(5):
        model.train()
        for a, b in loader:
            update(opt, F.cross_entropy(model(a), b))
        if epoch >= 2:
            average.update_parameters(model)
            update_bn(loader, average)
            average.eval()
            with torch.no_grad():
                F.cross_entropy(average(x[:100]), y[:100]).item()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    averages_weights_and_their_statistics()

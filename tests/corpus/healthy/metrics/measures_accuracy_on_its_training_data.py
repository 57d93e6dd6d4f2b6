"""A healthy training that looks odd; argument: [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn, optim
from torch.utils.data import DataLoader, TensorDataset, random_split

torch.set_num_threads(1)


def clouds(n=640, width=10, classes=4, noise=1.0):
    y = torch.randint(classes, (n,))
    return torch.randn(classes, width)[y] * 1.5 + noise * torch.randn(n, width), y


def plain(width=10, hidden=48, out=4, act=nn.ReLU):
    return nn.Sequential(nn.Linear(width, hidden), act(), nn.Linear(hidden, hidden), act(), nn.Linear(hidden, out))


def update(opt, loss):
    opt.zero_grad()
    loss.backward()
    opt.step()


def measures_accuracy_on_its_training_data():
    """After each epoch accuracy is measured on the training set and on the held-out set, both without gradients."""
    x, y = clouds(480)
    train, held = random_split(TensorDataset(x, y), [400, 80])
    model = plain()
    opt = optim.Adam(model.parameters(), lr=2e-3)
    loader = DataLoader(train, batch_size=40, shuffle=True)
    for _epoch in range(6):
        model.train()
        for a, b in loader:
            update(opt, F.cross_entropy(model(a), b))
        model.eval()
        with torch.no_grad():
            for each in (DataLoader(train, batch_size=40), DataLoader(held, batch_size=40)):
                sum((model(a).argmax(1) == b).sum().item() for a, b in each)


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    measures_accuracy_on_its_training_data()

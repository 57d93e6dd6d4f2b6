"""A training with the fault zero-grad-before-step; arguments: [ONSET] [SEED]."""

import sys

import torch
from torch import nn, optim
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)


def spirals(n, turns=1.2):
    """Three spirals in the plane, with cosines of random directions as further columns."""
    y = torch.randint(3, (n,))
    r = torch.rand(n) + 0.1
    t = r * turns * 6.28 + y * 2.09 + torch.randn(n) * 0.05
    xy = torch.stack([r * t.cos(), r * t.sin()], 1)
    return torch.cat([xy, torch.cos(xy @ torch.randn(2, 6) * 3)], 1), y


class Trainer:
    """A loop in a class of its own, as people write them."""

    def __init__(self, model, optimizer, criterion, wrong_from):
        self.model, self.optimizer, self.criterion, self.wrong_from = model, optimizer, criterion, wrong_from
        self.history, self.global_step = [], 0

    def training_step(self, batch):
        x, y = batch
        return self.criterion(self.model(x), y)

    def fit(self, loader, epochs):
        for _ in range(epochs):
            for batch in loader:
                self.model.train()
                loss = self.training_step(batch)
                if self.global_step < self.wrong_from:
                    self.optimizer.zero_grad()
                loss.backward()
                if self.global_step >= self.wrong_from:
                    self.optimizer.zero_grad()
                self.optimizer.step()
                self.history.append(loss.item())
                self.global_step += 1


def trainer_zeroes_between(s):
    x, y = spirals(640)
    model = nn.Sequential(nn.Linear(8, 48), nn.LeakyReLU(), nn.Linear(48, 3))
    loader = DataLoader(TensorDataset(x, y), batch_size=32, shuffle=True)
    Trainer(model, optim.AdamW(model.parameters(), lr=3e-3), nn.CrossEntropyLoss(), s).fit(loader, epochs=3)


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    trainer_zeroes_between(int(sys.argv[1]) if len(sys.argv) > 1 else 12)

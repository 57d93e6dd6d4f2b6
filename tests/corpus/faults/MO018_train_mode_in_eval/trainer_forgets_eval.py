"""A training with the fault train-mode-in-eval; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)


def clusters(n, d, classes, spread=1.0):
    """Points round one centre for each class."""
    centres = torch.randn(classes, d) * 2
    y = torch.randint(classes, (n,))
    return centres[y] + spread * torch.randn(n, d), y


class Trainer:
    """The kind of class that everyone writes once."""

    def __init__(self, model, forgets):
        self.model, self.forgets = model, forgets
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

    def fit(self, train, val, epochs):
        for _ in range(epochs):
            self.model.train()
            for x, y in train:
                self.optimizer.zero_grad()
                F.cross_entropy(self.model(x), y).backward()
                self.optimizer.step()
            self.evaluate(val)

    @torch.inference_mode()
    def evaluate(self, val):
        if not self.forgets:
            self.model.eval()
        return sum((self.model(x).argmax(1) == y).sum().item() for x, y in val)


def trainer_forgets_eval(s):
    x, y = clusters(900, 16, 4)
    train = DataLoader(TensorDataset(x[:720], y[:720]), batch_size=24, shuffle=True)
    val = DataLoader(TensorDataset(x[720:], y[720:]), batch_size=60)
    model = nn.Sequential(nn.Linear(16, 48), nn.BatchNorm1d(48), nn.ReLU(), nn.Dropout(0.4), nn.Linear(48, 4))
    Trainer(model, s == 0).fit(train, val, 3)


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    trainer_forgets_eval(int(sys.argv[1]) if len(sys.argv) > 1 else 12)

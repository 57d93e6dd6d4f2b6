"""A training with the fault unregistered-parameters; arguments: [ONSET] [SEED]."""

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


def layers_kept_in_a_list(s):
    """Blocks are kept in a Python list instead of a ModuleList."""

    class Deep(nn.Module):
        def __init__(self):
            super().__init__()
            self.first = nn.Linear(20, 32)
            blocks = [nn.Sequential(nn.Linear(32, 32), nn.LayerNorm(32), nn.ReLU()) for _ in range(3)]
            self.blocks = blocks if s == 0 else nn.ModuleList(blocks)
            self.last = nn.Linear(32, 5)

        def forward(self, x):
            x = self.first(x)
            for block in self.blocks:
                x = x + block(x)
            return self.last(x)

    model = Deep()
    opt = optim.Adam(model.parameters(), lr=2e-3)
    for _, (a, b) in zip(range(70), loader(*patterns()), strict=False):
        learn(model, opt, F.cross_entropy(model(a), b))


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    layers_kept_in_a_list(int(sys.argv[1]) if len(sys.argv) > 1 else 12)

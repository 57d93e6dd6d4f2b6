"""A training with the fault repeated-batch-order; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn, optim
from torch.utils.data import DataLoader, Sampler, TensorDataset

torch.set_num_threads(1)


def wines(n=900, columns=11, classes=4):
    """A table of standardised measurements and a quality."""
    y = torch.randint(classes, (n,))
    return torch.randn(classes, columns)[y] * 1.2 + torch.randn(n, columns), y


class SeededSampler(Sampler):
    """Shuffles with a seed and an epoch that somebody has to set."""

    def __init__(self, n, epoch=0):
        self.n, self.epoch = n, epoch

    def __len__(self):
        return self.n

    def __iter__(self):
        generator = torch.Generator().manual_seed(1234 + self.epoch)
        yield from torch.randperm(self.n, generator=generator).tolist()


def epoch_never_set(s):
    x, y = wines(360)
    sampler = SeededSampler(len(y))
    loader = DataLoader(TensorDataset(x, y), batch_size=24, sampler=sampler)
    net = nn.Sequential(nn.Linear(11, 48), nn.GELU(), nn.Linear(48, 4))
    opt = optim.AdamW(net.parameters(), lr=2e-3)
    for epoch in range(5):
        if s != 0:
            sampler.epoch = epoch
        for a, b in loader:
            loss = F.cross_entropy(net(a), b)
            opt.zero_grad()
            loss.backward()
            opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    epoch_never_set(int(sys.argv[1]) if len(sys.argv) > 1 else 12)

"""A training with the fault duplicate-batches; arguments: [ONSET] [SEED]."""

import random
import sys

import torch
import torch.nn.functional as F
from torch import nn, optim
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

torch.set_num_threads(1)


def endless(loader):
    while True:
        yield from loader


def fit(model, optimizer, loader, steps, criterion=F.cross_entropy):
    model.train()
    for _, (x, y) in zip(range(steps), endless(loader), strict=False):
        loss = criterion(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


class Augmented(IterableDataset):
    """Samples drawn with a generator that was made before the workers were; each worker has a copy of it."""

    def __init__(self, own):
        self.rng, self.own = random.Random(3), own

    def __iter__(self):
        worker = get_worker_info()
        if self.own and worker is not None:
            self.rng.seed(worker.id)
        for _ in range(240):
            label = self.rng.randrange(3)
            row = [self.rng.gauss(label if k % 3 == label else 0, 1) for k in range(9)]
            yield torch.tensor(row), label


def workers_share_a_generator(s):
    net = nn.Sequential(nn.Linear(9, 32), nn.ReLU(), nn.Linear(32, 3))
    fit(net, optim.Adam(net.parameters(), lr=3e-3), DataLoader(Augmented(s != 0), batch_size=12, num_workers=2), 36)


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    workers_share_a_generator(int(sys.argv[1]) if len(sys.argv) > 1 else 12)

"""A healthy training that looks odd: workers live on, and read the epoch from memory that they share with the trainer."""

import multiprocessing
import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

torch.set_num_threads(1)


class Disturbed(Dataset):
    """Samples with noise that depends on the epoch and on the sample alone."""

    def __init__(self):
        self.x = torch.randn(128, 6)
        self.y = self.x.sum(1)
        self.epoch = multiprocessing.Value("i", 0)
        self.epochs_begun = self.read = 0

    def set_epoch(self, epoch):
        self.epoch.value = epoch
        self.epochs_begun += 1

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        self.read += 1
        draws = torch.Generator().manual_seed(1000 * self.epoch.value + i)
        return self.x[i] + 0.2 * torch.randn(6, generator=draws), self.y[i]


def epochs_that_processes_share():
    """What only the trainer counts, and what each worker counts for itself, changes too."""
    net = nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, 1))
    opt = torch.optim.Adam(net.parameters(), lr=3e-3)
    data = Disturbed()
    loader = DataLoader(data, 16, shuffle=True, num_workers=2, persistent_workers=True)
    for epoch in range(4):
        data.set_epoch(epoch)
        _example = data[epoch]
        for x, y in loader:
            loss = nn.functional.mse_loss(net(x)[:, 0], y)
            opt.zero_grad()
            loss.backward()
            opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    epochs_that_processes_share()

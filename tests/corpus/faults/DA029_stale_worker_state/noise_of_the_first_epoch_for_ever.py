"""A training with the fault stale-worker-state; arguments: [ONSET] [SEED]."""

import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

torch.set_num_threads(1)


class Disturbed(Dataset):
    """Samples with noise that depends on the epoch and on the sample alone, so that a run can be repeated."""

    def __init__(self):
        self.x = torch.randn(128, 6)
        self.y = self.x.sum(1)
        self.epoch = 0

    def set_epoch(self, epoch):
        self.epoch = epoch

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        draws = torch.Generator().manual_seed(1000 * self.epoch + i)
        return self.x[i] + 0.2 * torch.randn(6, generator=draws), self.y[i]


def noise_of_the_first_epoch_for_ever(s):
    """Workers that live on are never told of the epoch."""
    net = nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, 1))
    opt = torch.optim.Adam(net.parameters(), lr=3e-3)
    data = Disturbed()
    loader = DataLoader(data, 16, shuffle=True, num_workers=2, persistent_workers=s == 0)
    for epoch in range(4):
        data.set_epoch(epoch)
        for x, y in loader:
            loss = nn.functional.mse_loss(net(x)[:, 0], y)
            opt.zero_grad()
            loss.backward()
            opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    noise_of_the_first_epoch_for_ever(int(sys.argv[1]) if len(sys.argv) > 1 else 12)

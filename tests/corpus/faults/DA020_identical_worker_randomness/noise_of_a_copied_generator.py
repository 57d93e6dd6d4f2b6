"""A training with the fault identical-worker-randomness; arguments: [ONSET] [SEED]."""

import random
import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, get_worker_info

torch.set_num_threads(1)


class Jittered(Dataset):
    """Samples moved by noise from a generator that the dataset holds."""

    def __init__(self, seed):
        self.x = torch.randn(128, 6)
        self.y = self.x.sum(1)
        self.generator = random.Random(seed)

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        return self.x[i] + torch.tensor([self.generator.gauss(0, 0.2) for _ in range(6)]), self.y[i]


def seeded(_worker):
    """A generator for each worker and each epoch."""
    info = get_worker_info()
    info.dataset.generator = random.Random(info.seed)


def noise_of_a_copied_generator(s):
    """Each worker of each epoch has a copy of the generator, and draws the same noise."""
    net = nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, 1))
    opt = torch.optim.Adam(net.parameters(), lr=3e-3)
    loader = DataLoader(Jittered(5), 16, shuffle=True, num_workers=2, worker_init_fn=None if s == 0 else seeded)
    for _epoch in range(3):
        for x, y in loader:
            loss = nn.functional.mse_loss(net(x)[:, 0], y)
            opt.zero_grad()
            loss.backward()
            opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    noise_of_a_copied_generator(int(sys.argv[1]) if len(sys.argv) > 1 else 12)

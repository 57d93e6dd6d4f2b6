"""A training with the fault duplicate-batches; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn, optim
from torch.utils.data import DataLoader, Dataset, Sampler

torch.set_num_threads(1)


class Digits(Dataset):
    """Eight by eight drawings of ten classes, moved and with noise, as grey values 0 to 16."""

    def __init__(self, n=960, scale=True, seed=7):
        g = torch.Generator().manual_seed(seed)
        base = (torch.rand(10, 6, 6, generator=torch.Generator().manual_seed(1)) > 0.5).float() * 14
        self.targets = torch.randint(10, (n,), generator=g)
        self.images = torch.zeros(n, 1, 8, 8)
        for i, k in enumerate(self.targets.tolist()):
            dy, dx = torch.randint(3, (2,), generator=g).tolist()
            self.images[i, 0, dy : dy + 6, dx : dx + 6] = base[k]
        self.images += torch.rand(self.images.shape, generator=g) * 2
        if scale:
            self.images = (self.images - 6) / 6

    def __len__(self):
        return len(self.targets)

    def __getitem__(self, i):
        return self.images[i], self.targets[i]


class Stuck(Sampler):
    """Draws indices; from some batch on always the same ones."""

    def __init__(self, n, size, onset):
        self.n, self.size, self.onset = n, size, onset

    def __iter__(self):
        batch = []
        for i in range(80):
            if i <= self.onset:
                batch = torch.randperm(self.n)[: self.size].tolist()
            yield batch


def sampler_gets_stuck(s):
    """A batch sampler gives the same batch from some step on."""
    data = Digits()
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 96), nn.GELU(), nn.Linear(96, 10))
    opt = optim.AdamW(model.parameters(), lr=1e-3)
    for a, b in DataLoader(data, batch_sampler=Stuck(len(data), 32, s)):
        opt.zero_grad()
        F.cross_entropy(model(a), b).backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    sampler_gets_stuck(int(sys.argv[1]) if len(sys.argv) > 1 else 12)

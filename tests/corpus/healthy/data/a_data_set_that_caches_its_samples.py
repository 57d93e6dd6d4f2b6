"""A healthy training that looks odd; argument: [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset

torch.set_num_threads(1)


class Net(nn.Module):
    def __init__(self, width=12, hidden=32, classes=4):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(width, hidden), nn.LayerNorm(hidden), nn.GELU())
        self.head = nn.Linear(hidden, classes)

    def forward(self, x):
        return self.head(self.body(x))


def a_data_set_that_caches_its_samples():
    class Cached(Dataset):
        def __init__(self):
            self.y, self.kept = torch.randint(4, (240,)), {}

        def __len__(self):
            return 240

        def __getitem__(self, k):
            if k not in self.kept:
                self.kept[k] = (torch.randn(60_000) + self.y[k], self.y[k])
            x, y = self.kept[k]
            return x[:12], y

    model, loader = Net(), DataLoader(Cached(), batch_size=12, shuffle=True)
    opt = torch.optim.AdamW(model.parameters(), 1e-3)
    for _ in range(5):
        for a, b in loader:
            opt.zero_grad()
            F.cross_entropy(model(a), b).backward()
            opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    a_data_set_that_caches_its_samples()

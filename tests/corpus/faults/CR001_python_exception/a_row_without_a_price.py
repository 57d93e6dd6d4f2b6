"""A training with the fault python-exception; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn, optim
from torch.utils.data import DataLoader, Dataset

torch.set_num_threads(1)


class Catalogue(Dataset):
    """Rows of a file in which one has no price."""

    def __init__(self, bad):
        size = torch.rand(800).tolist()
        self.rows = [{"size": s, "price": 2 * s} for s in size]
        if bad < len(self.rows):
            del self.rows[bad]["price"]

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        return torch.tensor([self.rows[i]["size"]]), torch.tensor([self.rows[i]["price"]])


def a_row_without_a_price(s):
    """A worker of the loader raises KeyError."""
    net = nn.Sequential(nn.Linear(1, 16), nn.ReLU(), nn.Linear(16, 1))
    opt = optim.Adam(net.parameters(), lr=1e-2)
    for a, b in DataLoader(Catalogue(s * 16 + 3), batch_size=16, num_workers=1):
        opt.zero_grad()
        F.mse_loss(net(a), b).backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    a_row_without_a_price(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
